//! The latency of reviews in one namespace while another namespace causes many slow reviews.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::join_all;
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::{fixtures, wait};
use serde_json::{Value, json};

use crate::registration::ManagedWebhooks;
use crate::sent::{Connection, review};
use crate::world::LIMIT;

const CONFLICT: &str = include_str!("../../docs/examples/rego/gates/ingress-conflict.rego");
/// The number of hosts in each of two Ingresses, which makes their comparison slow.
const HOSTS: usize = 1_500;
const REVIEWS: usize = 30;

fn ingress(namespace: &str, name: &str, hosts: usize) -> Value {
    let rules: Vec<Value> =
        (0..hosts).map(|number| json!({"host": format!("{name}-{number}.{namespace}.example")})).collect();
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name, "namespace": namespace},
        "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}, "rules": rules}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_over_the_hosts_of_one_namespace_delay_no_review_of_another() -> Result<()> {
    let mut hub = ManagedWebhooks::prepare_with_files("rego-fair").await?;
    apply(hub.client(), &fixtures::namespace("rego-fair-hostile")).await?;
    apply(hub.client(), &ingress("rego-fair-hostile", "stored", HOSTS)).await?;
    hub.run(&["--audit-interval=0"]).await?;
    hub.world.write("conflict", json!({"conflict.rego": CONFLICT})).await?;
    hub.world.until_ok("conflict").await?;
    let (long, short) = (
        review("ingresses", &ingress("rego-fair-hostile", "written", HOSTS)),
        review("ingresses", &ingress("rego-fair-shop", "web", 1)),
    );
    // Once the controller has loaded the stored Ingress, the review denies its host to the Ingress `taken`.
    let mut taken = ingress("rego-fair-shop", "taken", 1);
    taken["spec"]["rules"][0]["host"] = "stored-0.rego-fair-hostile.example".into();
    wait::until("the stored Ingress is loaded", LIMIT, || async {
        let answer =
            Connection::open(&hub.webhooks).await?.post("/admit", &review("ingresses", &taken)).await?;
        ensure!(answer.contains("is taken by Ingress rego-fair-hostile/stored"), "{answer}");
        Ok(())
    })
    .await?;
    let times = async || -> Result<Vec<Duration>> {
        let (mut connection, mut times) = (Connection::open(&hub.webhooks).await?, Vec::new());
        for _ in 0..REVIEWS {
            let began = Instant::now();
            let answer = connection.post("/admit", &short).await?;
            ensure!(answer.contains("\"allowed\":true"), "{answer}");
            times.push(began.elapsed());
        }
        times.sort();
        Ok(times)
    };
    let quiet = times().await?;
    let (ends, completed) = (AtomicBool::new(false), AtomicUsize::new(0));
    let hostile = join_all((0..16).map(|_| async {
        let mut connection = Connection::open(&hub.webhooks).await?;
        while !ends.load(Ordering::Relaxed) {
            connection.post("/admit", &long).await?;
            completed.fetch_add(1, Ordering::Relaxed);
        }
        anyhow::Ok(())
    }));
    let measured = async {
        wait::until("slow reviews are in progress", LIMIT, || async {
            ensure!(completed.load(Ordering::Relaxed) > 0, "no slow review has ended");
            Ok(())
        })
        .await?;
        let times = times().await;
        ends.store(true, Ordering::Relaxed);
        times
    };
    let (hostile, beside) = tokio::join!(hostile, measured);
    hostile.into_iter().collect::<Result<Vec<()>>>()?;
    let beside = beside?;
    println!("{:?} to {:?}, beside slow reviews {:?} to {:?}", quiet[0], quiet[29], beside[0], beside[29]);
    // The slowest tenth is ignored: other processes use the machine as well.
    let (quiet, beside) = (quiet[REVIEWS * 9 / 10], beside[REVIEWS * 9 / 10]);
    ensure!(
        beside <= 2 * quiet + Duration::from_millis(100),
        "{beside:?} beside slow reviews, {quiet:?} without them"
    );
    Ok(())
}
