//! How many secrets are read at the same time: so many on a node, few of one organisation, so that a manager that hangs
//! keeps nobody else's secrets waiting.

use crate::harness::admin::Admin;
use crate::harness::{Gateway, Manager, Upstream, eventually, reply};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::sync::Semaphore;

const AT_ONCE: usize = 16;
const OF_ONE: usize = 4;

/// A vault that takes questions and answers none of them before it is let.
struct HeldVault {
    upstream: Upstream,
    gate: Arc<Semaphore>,
    /// Questions that wait now, and the most that ever did.
    waiting: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl HeldVault {
    async fn start() -> Self {
        let (gate, waiting, most) =
            (Arc::new(Semaphore::new(0)), Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (held, now, peak) = (gate.clone(), waiting.clone(), most.clone());
        let upstream = Upstream::scripted(move |mut peer| {
            let (gate, now, peak) = (held.clone(), now.clone(), peak.clone());
            async move {
                while peer.request().await.is_some() {
                    peak.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                    gate.acquire().await.expect("open").forget();
                    now.fetch_sub(1, SeqCst);
                    let secret =
                        json!({ "data": { "data": { "key": "sk-held" }, "metadata": { "destroyed": false } } });
                    if !peer.send(reply::json(200, &secret)).await {
                        return;
                    }
                }
            }
        });
        Self { upstream: upstream.await, gate, waiting, most }
    }

    async fn is_asked(&self, questions: usize) {
        let what = format!("{questions} questions at once");
        eventually(&what, || async { (self.waiting.load(SeqCst) == questions).then_some(()) }).await;
    }
}

fn reference(slug: &str, address: &str) -> Value {
    json!({ "name": slug, "slug": slug, "manager_type": "hashicorp_vault", "secret_path": "secret/data/team/openai",
            "secret_key": "key", "auth_config": { "vault_auth_type": "token", "vault_addr": address,
                                                  "vault_token": "vault-token-canary" } })
}

async fn is_read(admin: &Admin<'_>, slug: &str) {
    eventually("a secret that is read", async || {
        let shown = admin.get(&format!("/secret-references/{slug}")).await.expect(200).json();
        shown["resolution"]["read_at"].is_string().then_some(())
    })
    .await;
}

#[tokio::test]
async fn secrets_are_read_some_at_a_time_and_few_of_one_organisation() {
    let gateway = Gateway::start().await;
    let (held, quick) = (HeldVault::start().await, Manager::vault(json!({ "key": "sk-quick" })).await);
    let address = held.upstream.url().trim_end_matches("/v1").to_owned();
    let admin = gateway.admin();
    let add = async |admin: &Admin<'_>, count: usize| {
        for n in 0..count {
            admin.post("/secret-references", &reference(&format!("held-{n}"), &address)).await.expect(200);
        }
    };
    add(&admin, OF_ONE + 3).await;
    held.is_asked(OF_ONE).await;
    let mut keys = Vec::new();
    for n in 0..AT_ONCE / OF_ONE {
        let body =
            json!({ "name": format!("O{n}"), "slug": format!("o-{n}"), "owners": [format!("o{n}@example.org")] });
        let made = admin.post("/admin/organisations", &body).await.expect(200).json();
        keys.push(made["admin_key"]["key"].as_str().expect("a key").to_owned());
    }
    // Another organisation's is read at once, and those of the first go on waiting.
    let other = admin.with_key(&keys[0]);
    other.post("/secret-references", &reference("quick", &quick.url())).await.expect(200);
    is_read(&other, "quick").await;
    assert_eq!(held.waiting.load(SeqCst), OF_ONE);
    for key in &keys {
        add(&admin.with_key(key), OF_ONE).await;
    }
    held.is_asked(AT_ONCE).await;
    held.gate.add_permits(1000);
    for n in 0..OF_ONE + 3 {
        is_read(&admin, &format!("held-{n}")).await;
    }
    for key in &keys {
        for n in 0..OF_ONE {
            is_read(&admin.with_key(key), &format!("held-{n}")).await;
        }
    }
    assert_eq!(held.most.load(SeqCst), AT_ONCE, "never more than that");
}
