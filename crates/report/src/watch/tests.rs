use super::*;
use policy_sync_sync::kinds::{CLASSES, GATEWAYS};

#[test]
fn outage_is_reported_once_and_ends_with_the_last_source() {
    let (a, b) = (CLASSES.all(), GATEWAYS.all());
    let mut outage = Outage::default();
    assert!(!outage.resolve(&a));
    assert!(outage.is_new(a.clone(), "away"));
    assert!(!outage.is_new(b.clone(), "away") && !outage.is_new(a.clone(), "away"));
    assert!(outage.is_active() && !outage.resolve(&a) && outage.resolve(&b) && !outage.resolve(&b));
    assert!(outage.is_new(a, "away"));
}
