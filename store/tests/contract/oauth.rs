//! Codes are spent once and refresh tokens turned once, by whichever node and however many at once; clients are
//! bounded.

use crate::{House, id, on_every_engine};
use gateway_domain::Timestamp;
use gateway_domain::id::{GrantId, OrgId};
use gateway_domain::ports::{EndedGrant, OauthClient, OauthCode, OauthRows, OauthStore, RefreshTurn};

on_every_engine!(
    a_code_is_the_first_ones,
    of_many_who_bring_one_refresh_token_one_gets_the_next,
    what_is_over_is_named_and_forgotten,
    clients_are_bounded_and_the_idle_make_room,
);

fn code(n: u128) -> OauthCode {
    let (grant, org) = (GrantId(id(n)), OrgId(id(9)));
    OauthCode { id: format!("code-{n}"), grant, org, asked: "{}".to_owned(), expires_at: Timestamp(100) }
}

fn client(name: &str, at: i64) -> OauthClient {
    OauthClient { id: name.to_owned(), metadata: "{}".to_owned(), created_at: Timestamp(at) }
}

async fn a_code_is_the_first_ones(house: House) {
    let database = house.open().await;
    database.begin_grant(&code(1)).await.unwrap();
    assert_eq!(database.spend_code("code-2").await.unwrap(), None);
    let other = database.clone();
    let (first, second) = tokio::join!(database.spend_code("code-1"), other.spend_code("code-1"));
    let both = [first.unwrap().unwrap(), second.unwrap().unwrap()];
    let mut uses: Vec<i64> = both.iter().map(|spent| spent.uses).collect();
    uses.sort_unstable();
    assert_eq!(uses, [1, 2]);
    assert_eq!(both[0].code, code(1));
}

async fn of_many_who_bring_one_refresh_token_one_gets_the_next(house: House) {
    let database = house.open().await;
    database.begin_grant(&code(1)).await.unwrap();
    let (grant, now, until) = (GrantId(id(1)), Timestamp(50), Timestamp(1_000));
    let turn = |number| database.turn_grant(grant, number, now, until);
    assert_eq!(turn(0).await.unwrap(), RefreshTurn::Turned);
    let (a, b, c) = tokio::join!(turn(1), turn(1), turn(1));
    let all = [a.unwrap(), b.unwrap(), c.unwrap()];
    assert_eq!(all.iter().filter(|turn| **turn == RefreshTurn::Turned).count(), 1);
    assert_eq!(all.iter().filter(|turn| **turn == RefreshTurn::Reused).count(), 2);
    assert_eq!(turn(7).await.unwrap(), RefreshTurn::Gone, "nobody was given such a one");
    assert_eq!(database.turn_grant(grant, 2, until, Timestamp(9_000)).await.unwrap(), RefreshTurn::Gone, "too late");
    assert!(database.end_grant(grant).await.unwrap());
    assert!(!database.end_grant(grant).await.unwrap());
    assert_eq!(turn(2).await.unwrap(), RefreshTurn::Gone);
    assert_eq!(turn(0).await.unwrap(), RefreshTurn::Gone);
}

async fn what_is_over_is_named_and_forgotten(house: House) {
    let database = house.open().await;
    database.begin_grant(&code(1)).await.unwrap();
    database.begin_grant(&code(2)).await.unwrap();
    let turned = database.turn_grant(GrantId(id(2)), 0, Timestamp(1), Timestamp(500)).await.unwrap();
    assert_eq!(turned, RefreshTurn::Turned);
    assert_eq!(database.ended_grants(Timestamp(99), 10).await.unwrap(), []);
    let ended = EndedGrant { grant: GrantId(id(1)), org: OrgId(id(9)) };
    assert_eq!(database.ended_grants(Timestamp(100), 10).await.unwrap(), [ended]);
    assert_eq!(database.ended_grants(Timestamp(500), 1).await.unwrap(), [ended]);
    assert_eq!(database.forget_codes(Timestamp(100)).await.unwrap(), 0);
    assert_eq!(database.forget_codes(Timestamp(101)).await.unwrap(), 2);
    assert_eq!(database.spend_code("code-1").await.unwrap(), None);
    assert_eq!(database.oauth_rows().await.unwrap(), OauthRows { clients: 0, grants: 2, codes: 0 });
}

async fn clients_are_bounded_and_the_idle_make_room(house: House) {
    let database = house.open().await;
    let add = async |name: &str, at: i64, idle: i64| {
        database.add_client(&client(name, at), 2, Timestamp(idle)).await.unwrap()
    };
    assert!(add("a", 10, 0).await);
    assert!(add("b", 20, 0).await);
    assert!(!add("c", 30, 10).await, "nobody is idle for long enough");
    assert!(add("c", 30, 11).await);
    assert_eq!(database.client("a").await.unwrap(), None, "the oldest made room");
    assert_eq!(database.client("b").await.unwrap(), Some(client("b", 20)));
    database.use_client("b", Timestamp(40)).await.unwrap();
    database.use_client("c", Timestamp(50)).await.unwrap();
    assert!(!add("d", 60, 1_000).await, "whom people sign in with stays");
    assert_eq!(database.forget_clients(Timestamp(50)).await.unwrap(), 1);
    assert!(database.client("b").await.unwrap().is_none() && database.client("c").await.unwrap().is_some());
}
