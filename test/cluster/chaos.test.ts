/**
 * Clients of all protocols work through a balancer while nodes are killed and frozen and the database restarts: nothing
 * acknowledged is lost, no file is torn, "only if new" creates once, a lock excludes, and all nodes show the same tree.
 *
 * TIDEGATE_CHAOS_SECONDS is the time of the faults. TIDEGATE_CHAOS_SEED repeats the choices of a run that failed, but
 * not its timing. TIDEGATE_CHAOS_HISTORY names a file that gets every operation as a line of JSON.
 */
import { randomInt } from 'node:crypto'
import t from 'tap'
import { lacks } from '../programs.js'
import { runChaos } from '../soak/chaos/run.js'

const seconds = Number(process.env.TIDEGATE_CHAOS_SECONDS ?? (process.env.TIDEGATE_VARIANTS === 'all' ? 180 : 60))
const seed = Number(process.env.TIDEGATE_CHAOS_SEED ?? randomInt(2 ** 31))

void t.test(
  `what three nodes answer is true during ${seconds} s of faults`,
  { timeout: (2 * seconds + 600) * 1000, skip: lacks('postgres', 'initdb', 'haproxy') },
  async (t) => {
    t.comment(`TIDEGATE_CHAOS_SEED=${seed}`)
    const { counts, violations } = await runChaos(t, seconds, seed)
    t.comment(JSON.stringify(counts))
    t.same(violations, [])
    for (const name of ['http', 'webdav', 'sftp', 'locks', 'creations', 'conditional', 'moves', 'kills', 'freezes']) {
      t.ok((counts[name] ?? 0) > 0, name)
    }
    t.ok((counts['database restarts'] ?? 0) > 0, 'database restarts')
  },
)
