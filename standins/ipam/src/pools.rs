//! A pass over a pool: its finalizer and its counts.

use causeway_api::ipam::{InClusterIPPool, PoolCounts};
use causeway_drive::Name;
use serde_json::json;

use crate::{
    PROTECT_POOL,
    pass::{PassError, World, finalizers, holds, is_going, write},
    pool::{gave, in_use, to_give},
};

pub(crate) async fn pass(world: &World, (namespace, name): &Name) -> Result<(), PassError> {
    let Some(pool) = world.pools.get(namespace, name) else {
        return Ok(());
    };
    let mut pool = InClusterIPPool::clone(&pool);
    let addresses = world.addresses.all();
    let given: Vec<_> = addresses
        .values()
        .map(|address| &**address)
        .filter(|address| gave(&pool, address))
        .collect();
    let (held, going) = (holds(&pool, PROTECT_POOL), is_going(&pool));
    // One that is going cannot be held any more.
    if (going && held && given.is_empty()) || (!going && !held) {
        let patch = finalizers(&pool, PROTECT_POOL, !going);
        pool = write(world, &world.pools, &pool, false, patch).await?;
    }
    if going {
        return Ok(());
    }
    let all = to_give(&pool.spec)?;
    let used = i64::try_from(given.len()).unwrap_or(i64::MAX);
    let counts = PoolCounts {
        total: all.count(),
        free: all.count() - used,
        used,
        out_of_range: in_use(given).without(&all).count(),
    };
    if pool.status.as_ref().and_then(|status| status.ip_addresses) != Some(counts) {
        let patch = json!({"status": {"ipAddresses": counts}});
        write(world, &world.pools, &pool, true, patch).await?;
    }
    Ok(())
}
