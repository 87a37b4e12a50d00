//! The first start, alone and with another node starting at the same moment.

use crate::harness::{ADMIN, House, SERVICE};
use gateway_admin::{bootstrap, new_admin_key};
use gateway_domain::keys::looks_minted;
use gateway_domain::resource::AuditQuery;

#[tokio::test]
async fn an_empty_store_gets_an_organisation_and_two_keys_once() {
    let house = House::empty().await;
    let made = house.bootstrap(None, None).await.expect("made");
    let (admin, service) = (made.admin_key.expose().clone(), made.workspace_key.expose().clone());
    assert!(looks_minted(&admin) && admin.starts_with("gw_admin_"), "{admin}");
    assert!(looks_minted(&service) && service.starts_with("gw_svc_"), "{service}");
    house.with(&admin).get("/configs").await.expect(200);
    house.with(&service).get("/configs").await.expect(200);
    let snapshot = house.app.live.snapshot();
    let org = snapshot.org(made.organisation).expect("in force");
    assert_eq!((&*org.slug, org.default_workspace, org.block_inline_config), ("default", made.workspace, false));
    assert!(house.bootstrap(Some(ADMIN), Some(SERVICE)).await.is_none(), "given keys change nothing later");
    assert!(!house.in_force(ADMIN));
    let printed = format!("{made:?}");
    assert!(!printed.contains(&admin) && !printed.contains(&service), "{printed}");
}

#[tokio::test]
async fn given_keys_are_taken_as_they_are() {
    let house = House::empty().await;
    for (admin, service) in [
        (Some("short"), None),
        (None, Some("short")),
        (Some(ADMIN), Some(ADMIN)),
        (Some("with blanks in the middle of it, far too long"), None),
    ] {
        let refused = bootstrap(&house.app, admin, service).await.expect_err("unusable");
        assert!(refused.to_string().starts_with("bootstrap-"), "{refused}");
    }
    house.bootstrap(Some(ADMIN), Some(SERVICE)).await.expect("made");
    house.as_admin().get("/configs").await.expect(200);
    house.as_service().get("/configs").await.expect(200);
}

#[tokio::test]
async fn two_nodes_that_start_at_once_make_one_organisation() {
    let one = House::empty().await;
    let two = one.beside().await;
    let (a, b) = tokio::join!(one.bootstrap(None, None), two.bootstrap(None, None));
    assert_eq!(usize::from(a.is_some()) + usize::from(b.is_some()), 1);
    let made = a.or(b).expect("one of them");
    for house in [&one, &two] {
        assert_eq!(house.app.live.snapshot().orgs().count(), 1);
        house.with(made.admin_key.expose()).get("/configs").await.expect(200);
    }
    let trail = one.app.history.audit(&AuditQuery { page_size: 100, ..AuditQuery::default() }).await.expect("readable");
    assert_eq!(trail.total, 4);
    assert!(trail.rows.iter().all(|r| r.actor_kind == "system" && r.action == "create"));
}

#[tokio::test]
async fn a_lost_admin_key_is_replaced_by_the_operator() {
    let empty = House::empty().await;
    assert!(new_admin_key(&empty.app).await.is_err());
    let house = House::new().await;
    let key = new_admin_key(&house.app).await.expect("made");
    house.with(key.expose()).get("/api-keys").await.expect(200);
    house.as_admin().get("/configs").await.expect(200);
}
