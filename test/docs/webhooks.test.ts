/** docs/webhooks.md: its receiver accepts what is sent and nothing else, and its table has every kind of event. */
import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { eventKinds } from '../../src/base/event-kinds.js'
import { EgressGuard } from '../../src/net/egress.js'
import { createLog } from '../../src/process/log.js'
import { Webhooks } from '../../src/webhooks/webhooks.js'
import { outcomeOf } from '../cli/outcome.js'
import { openNewStore } from '../database/new-store.js'
import { freePorts } from '../servers/free-port.js'
import { until } from '../until.js'

const page = await readFile('docs/webhooks.md', 'utf8')

void t.test('the table of kinds has each of them', async (t) => {
  const [, table = ''] = /\n\| kind +\|.*?\n(.*?)\n\n/s.exec(page) ?? []
  const cells = table.split('\n').map((line) => line.split('|')[1] ?? '')
  const names = cells.flatMap((cell) => Array.from(cell.matchAll(/`([\w.-]+)`/g), ([, name = '']) => name))
  t.same(names.sort(), [...eventKinds].sort())
})

void t.test('the receiver of the page accepts what is signed', async (t) => {
  const [, program = ''] = /^```js\n(.*?)^```$/ms.exec(page) ?? []
  const folder = t.testdir({ 'receiver.mjs': program })
  const [port = 0] = await freePorts(1)
  const store = await openNewStore(join(folder, 'data.db'))
  t.teardown(() => store.close())
  const egress = new EgressGuard(() => '127.0.0.1')
  const webhooks = await Webhooks.open({ store, egress, siteUrl: '', log: createLog('silent') })
  const url = `http://127.0.0.1:${port}/`
  const { row, secret } = await webhooks.create({ name: 'page', url, kinds: [], paths: [], enabled: true })
  const child = spawn(process.execPath, [join(folder, 'receiver.mjs')], {
    env: { ...process.env, PORT: String(port), WEBHOOK_SECRET: secret },
  })
  const outcome = outcomeOf(child)
  t.teardown(() => child.kill('SIGKILL'))
  t.ok(await until(async () => child.exitCode !== null || (await webhooks.test(row.id)).status === 204))
  t.equal((await fetch(url, { method: 'POST', body: '{}' })).status, 400)
  child.kill('SIGTERM')
  t.match(await outcome, { out: /^test-[\w-]+ tidegate\.test/, err: '' })
})
