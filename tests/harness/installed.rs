//! What `tests/sdk/setup.sh` installs for the tests, outside the checkout.

pub(crate) use gateway_testing::installed;
