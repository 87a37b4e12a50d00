//! Accounts of people at MCP servers: connected anew in place of what was there, renewed by one of many, and bounded.

use crate::{House, id, on_every_engine};
use gateway_domain::Timestamp;
use gateway_domain::id::{McpIntegrationId, OrgId, UserId};
use gateway_domain::ports::{
    AccountsAsked, McpAccountId, McpAccountRows, McpAccounts, McpServerClient, SealedTokens, Vault,
};
use gateway_store::{MasterKey, SealingVault};

on_every_engine!(
    an_account_is_connected_renewed_lapsed_and_removed,
    of_many_that_would_renew_one_version_one_may,
    a_claim_is_given_back_by_whoever_holds_it,
    pages_hold_the_accounts_of_some_people_behind_some_integrations,
    accounts_are_bounded_and_walked_in_order,
    registrations_are_kept_by_issuer_and_the_oldest_make_room,
    tokens_are_sealed_anew_with_the_master_key,
);

const ORG: u128 = 9;

fn account(integration: u128, user: u128) -> McpAccountId {
    McpAccountId { integration: McpIntegrationId(id(integration)), user: UserId(id(user)) }
}

fn tokens(sealed: &str, until: i64) -> SealedTokens {
    SealedTokens { sealed: sealed.to_owned(), expires_at: Timestamp(until) }
}

async fn an_account_is_connected_renewed_lapsed_and_removed(house: House) {
    let database = house.open().await;
    let (one, org) = (account(1, 2), OrgId(id(ORG)));
    assert_eq!(database.account(one).await.unwrap(), None);
    assert!(database.connect_account(one, org, &tokens("a", 100), Timestamp(10), 5).await.unwrap());
    let found = database.account(one).await.unwrap().unwrap();
    assert_eq!((found.version, found.sealed.as_str(), found.org), (1, "a", org));
    assert_eq!((found.expires_at, found.created_at, found.updated_at), (Timestamp(100), Timestamp(10), Timestamp(10)));
    assert!(!database.renew_account(one, 2, &tokens("x", 1), Timestamp(20)).await.unwrap(), "not that version");
    assert!(database.renew_account(one, 1, &tokens("b", 200), Timestamp(20)).await.unwrap());
    assert!(!database.renew_account(one, 1, &tokens("x", 1), Timestamp(21)).await.unwrap(), "somebody was first");
    let found = database.account(one).await.unwrap().unwrap();
    assert_eq!((found.version, found.sealed.as_str(), found.expires_at), (2, "b", Timestamp(200)));
    assert_eq!((found.created_at, found.updated_at), (Timestamp(10), Timestamp(20)));
    assert_eq!(database.newest_account(one.integration).await.unwrap().unwrap(), found);
    assert!(!database.lapse_account(one, 1, Timestamp(30)).await.unwrap());
    assert!(database.lapse_account(one, 2, Timestamp(30)).await.unwrap());
    let found = database.account(one).await.unwrap().unwrap();
    assert!(!found.is_connected() && found.version == 3);
    assert_eq!(database.newest_account(one.integration).await.unwrap(), None);
    assert!(!database.claim_renewal(one, 3, Timestamp(40), Timestamp(50)).await.unwrap(), "there is nothing to renew");
    assert!(database.connect_account(one, org, &tokens("c", 300), Timestamp(60), 5).await.unwrap());
    let found = database.account(one).await.unwrap().unwrap();
    assert_eq!((found.version, found.sealed.as_str(), found.created_at), (4, "c", Timestamp(10)));
    assert_eq!(database.remove_account(one).await.unwrap(), Some(found));
    assert_eq!(database.remove_account(one).await.unwrap(), None);
    assert_eq!(database.account_rows().await.unwrap(), McpAccountRows::default());
}

async fn of_many_that_would_renew_one_version_one_may(house: House) {
    let database = house.open().await;
    let one = account(1, 2);
    assert!(database.connect_account(one, OrgId(id(ORG)), &tokens("a", 100), Timestamp(10), 5).await.unwrap());
    let (x, y) = (database.clone(), database.clone());
    let claim = |by: gateway_store::Database, at: i64| async move {
        by.claim_renewal(one, 1, Timestamp(at), Timestamp(at + 30)).await.unwrap()
    };
    let (first, second, third) = tokio::join!(claim(database.clone(), 20), claim(x.clone(), 20), claim(y.clone(), 20));
    assert_eq!([first, second, third].iter().filter(|may| **may).count(), 1);
    assert!(!claim(x.clone(), 49).await, "whoever may has until then");
    assert!(claim(x, 50).await, "a node that died is not waited for");
    assert!(database.renew_account(one, 1, &tokens("b", 200), Timestamp(55)).await.unwrap());
    assert!(!claim(y.clone(), 500).await, "that version is over");
    assert!(y.claim_renewal(one, 2, Timestamp(56), Timestamp(60)).await.unwrap(), "a renewal frees its successor");
}

async fn a_claim_is_given_back_by_whoever_holds_it(house: House) {
    let database = house.open().await;
    let one = account(1, 2);
    assert!(database.connect_account(one, OrgId(id(ORG)), &tokens("a", 100), Timestamp(10), 5).await.unwrap());
    let claim =
        async |at: i64, until: i64| database.claim_renewal(one, 1, Timestamp(at), Timestamp(until)).await.unwrap();
    let postpone = async |version: i64, claimed: i64, until: i64| {
        database.postpone_renewal(one, version, Timestamp(claimed), Timestamp(until)).await.unwrap()
    };
    assert!(claim(20, 50).await && !claim(21, 51).await);
    assert!(!postpone(1, 51, 21).await && !postpone(2, 50, 21).await, "another's claim, another version");
    assert!(!claim(22, 52).await);
    assert!(postpone(1, 50, 25).await);
    assert!(!claim(24, 54).await, "nobody is to try before then");
    assert!(claim(25, 55).await, "it is free long before it would have ended");
    assert_eq!(database.account(one).await.unwrap().unwrap().updated_at, Timestamp(10));
}

async fn pages_hold_the_accounts_of_some_people_behind_some_integrations(house: House) {
    let database = house.open().await;
    let (org, at) = (OrgId(id(ORG)), Timestamp(1));
    for (integration, user) in [(1, 5), (2, 3), (1, 3), (2, 4), (3, 3), (1, 6)] {
        assert!(database.connect_account(account(integration, user), org, &tokens("t", 0), at, 9).await.unwrap());
    }
    assert!(database.connect_account(account(1, 7), OrgId(id(8)), &tokens("t", 0), at, 9).await.unwrap());
    let integrations = [1, 2].map(|n| McpIntegrationId(id(n)));
    let everybody = [3, 4, 5, 7, 8].map(|n| UserId(id(n)));
    let page = async |users: &[UserId], skip: u64, most: u32| {
        let asked = AccountsAsked { org, integrations: &integrations, users, skip, most };
        let found = database.accounts_page(asked).await.unwrap();
        (found.rows.iter().map(|row| row.id).collect::<Vec<_>>(), found.total)
    };
    let first = vec![account(1, 3), account(2, 3), account(2, 4)];
    assert_eq!(page(&everybody, 0, 3).await, (first, 4));
    assert_eq!(page(&everybody, 3, 3).await, (vec![account(1, 5)], 4));
    assert_eq!(page(&everybody, 4, 3).await, (vec![], 4));
    assert_eq!(page(&everybody[1..2], 0, 9).await, (vec![account(2, 4)], 1));
    assert_eq!(page(&[], 0, 9).await, (vec![], 0));
    // More people than a statement takes values.
    let many: Vec<UserId> = (0..70_000).map(|n| UserId(id(n))).collect();
    assert_eq!(page(&many, 0, 9).await.1, 5);
}

async fn accounts_are_bounded_and_walked_in_order(house: House) {
    let database = house.open().await;
    let (org, at) = (OrgId(id(ORG)), Timestamp(1));
    let connect =
        async |n: McpAccountId, org: OrgId| database.connect_account(n, org, &tokens("t", 0), at, 3).await.unwrap();
    for user in [5, 3, 4] {
        assert!(connect(account(1, user), org).await);
    }
    assert!(!connect(account(2, 1), org).await, "there are three");
    assert!(connect(account(1, 5), org).await, "one of them may connect anew");
    assert!(connect(account(2, 1), OrgId(id(8))).await, "another organisation has a bound of its own");
    let users = async |after: Option<u128>| -> Vec<UserId> {
        let found = database.accounts_of(McpIntegrationId(id(1)), after.map(|n| UserId(id(n))), 2).await.unwrap();
        found.iter().map(|account| account.id.user).collect()
    };
    assert_eq!(users(None).await, [UserId(id(3)), UserId(id(4))]);
    assert_eq!(users(Some(4)).await, [UserId(id(5))]);
    let mut walked = Vec::new();
    loop {
        let some = database.all_accounts(walked.last().copied(), 3).await.unwrap();
        if some.is_empty() {
            break;
        }
        walked.extend(some.iter().map(|account| account.id));
    }
    assert_eq!(walked, [account(1, 3), account(1, 4), account(1, 5), account(2, 1)]);
    assert!(database.lapse_account(account(1, 3), 1, at).await.unwrap());
    assert_eq!(database.account_rows().await.unwrap(), McpAccountRows { connected: 3, lapsed: 1, clients: 0 });
}

async fn registrations_are_kept_by_issuer_and_the_oldest_make_room(house: House) {
    let database = house.open().await;
    let client = |issuer: &str, sealed: &str| McpServerClient {
        org: OrgId(id(ORG)),
        issuer: issuer.to_owned(),
        sealed: sealed.to_owned(),
    };
    let keep = async |client: &McpServerClient, at: i64| {
        database.keep_server_client(client, Timestamp(at), 2).await.unwrap();
    };
    let found = async |issuer: &str| database.server_client(OrgId(id(ORG)), issuer).await.unwrap();
    keep(&client("https://a.example", "1"), 1).await;
    keep(&client("https://b.example", "2"), 2).await;
    keep(&client("https://a.example", "3"), 3).await;
    assert_eq!(found("https://a.example").await, Some(client("https://a.example", "3")));
    assert_eq!(database.server_client(OrgId(id(8)), "https://a.example").await.unwrap(), None);
    keep(&client("https://c.example", "4"), 4).await;
    assert_eq!(found("https://b.example").await, None, "the oldest made room");
    assert!(found("https://a.example").await.is_some() && found("https://c.example").await.is_some());
    database.forget_server_client(OrgId(id(ORG)), "https://a.example").await.unwrap();
    assert_eq!(found("https://a.example").await, None);
    assert_eq!(database.account_rows().await.unwrap().clients, 1);
}

async fn tokens_are_sealed_anew_with_the_master_key(house: House) {
    let database = house.open().await;
    let (old, new) = (SealingVault::new(&MasterKey::generate()), SealingVault::new(&MasterKey::generate()));
    database.check_key(&old).await.unwrap();
    let (one, over, org) = (account(1, 2), account(1, 3), OrgId(id(ORG)));
    for (n, text) in [(one, "token"), (over, "gone")] {
        assert!(database.connect_account(n, org, &tokens(&old.seal(text), 0), Timestamp(1), 9).await.unwrap());
    }
    assert!(database.lapse_account(over, 1, Timestamp(2)).await.unwrap());
    let client = McpServerClient { org, issuer: "https://a.example".to_owned(), sealed: old.seal("secret") };
    database.keep_server_client(&client, Timestamp(1), 9).await.unwrap();
    database.reseal(&old, &new).await.unwrap();
    let opened = |sealed: &str| new.open(sealed).unwrap().expose().clone();
    assert_eq!(opened(&database.account(one).await.unwrap().unwrap().sealed), "token");
    assert_eq!(opened(&database.server_client(org, "https://a.example").await.unwrap().unwrap().sealed), "secret");
    assert!(!database.account(over).await.unwrap().unwrap().is_connected());
}
