/** What starts the daemon gives it the time to stop. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { protocols } from '../../protocols/index.js'
import { configSchema } from '../../src/installation/config.js'
import { closingSeconds } from '../../src/process/daemon.js'

void t.test('the unit and the compose file wait as long as the daemon may take to stop', async (t) => {
  const { drain_seconds: draining } = configSchema(protocols).parse({})
  const root = new URL('../../../', import.meta.url)
  for (const [file, pattern] of [
    ['systemd/tidegate.service', /^TimeoutStopSec=(\d+)$/m],
    ['compose.yaml', /stop_grace_period: (\d+)s/],
  ] as const) {
    const seconds = Number(pattern.exec(readFileSync(new URL(file, root), 'utf8'))?.[1])
    t.ok(seconds >= draining + closingSeconds, `${file}: ${seconds} >= ${draining} + ${closingSeconds}`)
  }
  for (const file of ['systemd/tidegate.service', 'docs/operations.md']) {
    t.match(readFileSync(new URL(file, root), 'utf8'), new RegExp(`\\b${closingSeconds} seconds`), `${file} says it`)
  }
})
