/** What commands change reaches whoever reads events, also while the daemon does not run. */
import { spawn } from 'node:child_process'
import { chown, mkdir, readFile, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { openStore } from '../../src/database/store.js'
import type { NumberedEvent } from '../../src/database/audit-rows.js'
import type { Store } from '../../src/database/tables.js'
import { startGateway } from '../gateway.js'
import { storeOf, storeVariables } from '../store-location.js'
import { connect } from '../stories/task-client.js'
import { until } from '../until.js'
import { startReceiver } from '../webhooks/receiver.js'
import { main, outcomeOf, type Outcome } from './outcome.js'
import t from 'tap'

/** A user of the system that has no name. */
const nameless = 54_321

async function runIn(dataFolder: string, words: readonly string[], uid?: number): Promise<Outcome> {
  const env = { ...process.env, ...(await storeVariables(dataFolder)) }
  const user = uid === undefined ? {} : { uid, gid: uid }
  return outcomeOf(spawn(process.execPath, [main, ...words, '--data', dataFolder], { env, ...user }))
}

const byCommands = async (store: Pick<Store, 'audit'>): Promise<readonly NumberedEvent[]> =>
  (await store.audit.after(0, {}, 1000)).events.filter(({ actor }) => actor.protocol === 'command line')

void t.test('what a command changes gets to the webhooks and the log of the audit', async (t) => {
  const running = await startGateway(t)
  const { dataFolder, gateway } = running
  const receiver = await startReceiver(t)
  const file = join(t.testdir(), 'audit.log')
  await gateway.settings.set(
    new Map([
      ['egress_networks', '127.0.0.0/8'],
      ['audit_log', file],
    ]),
  )
  const hook = { name: 'all', url: receiver.url, kinds: ['admin.user', 'admin.user.refused'], paths: [], enabled: true }
  await gateway.webhooks.create(hook)
  const run = (...words: string[]) => runIn(dataFolder, words)

  t.match(await run('user', 'add', 'ann', '--random', '--base-path', '/ann'), { status: 0, err: '' })
  t.ok(await until(() => receiver.received.length === 1), 'the daemon is told of what it has to deliver')
  t.match(receiver.received[0]?.event, {
    type: 'tidegate.admin.user',
    data: { subject: 'ann', protocol: 'command line' },
  })
  t.same([...(receiver.received[0]?.event.data as { fields: string[] }).fields].sort(), ['base_path', 'random'])
  t.match(await readFile(file, 'utf8'), / admin\.user done protocol=command_line user="\w+" subject="ann"/)

  t.match(await run('user', 'edit', 'ann', '--username', 'anna'), { status: 0 })
  t.ok(await until(() => receiver.received.length === 2))
  t.match(receiver.received[1]?.event, { data: { subject: 'ann → anna', fields: ['username'] } })

  t.match(await run('user', 'rm', 'nobody'), { status: 1 })
  t.ok(await until(() => receiver.received.length === 3))
  t.match(receiver.received[2]?.event, { type: 'tidegate.admin.user.refused', data: { subject: 'nobody' } })

  await running.stop()
  t.match(await run('user', 'rm', 'anna'), { status: 0 })
  t.match((await readFile(file, 'utf8')).trimEnd().split('\n').at(-1), /admin\.user done .* subject="anna"/)
  const again = await startGateway(t, { dataFolder })
  t.ok(await until(() => receiver.received.length === 4), 'the next daemon delivers what was stored without one')
  await again.stop()
})

void t.test('who switches the audit off or on is recorded, and nothing between them', async (t) => {
  const running = await startGateway(t)
  const { dataFolder, gateway } = running
  const run = (...words: string[]) => runIn(dataFolder, words)
  t.match(await run('setting', 'set', 'audit_enabled', 'false'), { status: 0 })
  t.match(await run('user', 'add', 'ann', '--random'), { status: 0 })
  t.match(await run('setting', 'set', 'audit_enabled', 'true'), { status: 0 })
  t.match(await run('user', 'rm', 'ann'), { status: 0 })
  t.match(
    (await byCommands(gateway.store)).map(({ kind, fields, subject }) => [kind, subject ?? fields?.join()]),
    [
      ['admin.setting', 'audit_enabled'],
      ['admin.setting', 'audit_enabled'],
      ['admin.user', 'ann'],
    ],
  )
  await until(() => gateway.settings.bool('audit_enabled'))
  const admin = await connect(running)
  const save = (...rows: [key: string, value: string][]) =>
    admin.post(
      '/api/admin/setting/save',
      rows.map(([key, value]) => ({ key, value })),
    )
  await save(['audit_enabled', 'false'], ['site_title', 'x'])
  await save(['site_title', 'y'])
  await save(['audit_enabled', 'true'])
  await running.stop()
  const store = await openStore(await storeOf(dataFolder, t))
  t.teardown(() => store.close())
  const saved = (await store.audit.after(0, { kinds: ['admin.setting'] }, 100)).events.filter(
    ({ actor }) => actor.protocol === 'http',
  )
  t.match(
    saved.map(({ actor, fields }) => [actor.name, fields]),
    [
      ['admin', ['audit_enabled', 'site_title']],
      ['admin', ['audit_enabled']],
    ],
  )
})

const withoutRoot = process.getuid?.() === 0 ? false : 'only root can be another user'

void t.test(
  'a user of the system without a name, as in a container, can run commands',
  { skip: withoutRoot },
  async (t) => {
    const running = await startGateway(t)
    const { dataFolder } = running
    await running.stop()
    const give = async (path: string): Promise<void> => {
      await chown(path, nameless, nameless)
      if ((await stat(path)).isDirectory()) for (const name of await readdir(path)) await give(join(path, name))
    }
    await give(dataFolder)
    t.match(await runIn(dataFolder, ['user', 'add', 'ann', '--random'], nameless), { status: 0, err: '' })
    const store = await openStore(await storeOf(dataFolder, t))
    t.teardown(() => store.close())
    t.match(await byCommands(store), [{ kind: 'admin.user', actor: { name: `uid ${nameless}` }, subject: 'ann' }])
  },
)

void t.test(
  'a file that a command of root makes belongs to the owner of its folder',
  { skip: withoutRoot },
  async (t) => {
    const { dataFolder, gateway } = await startGateway(t)
    const folder = join(t.testdir(), 'log')
    await mkdir(folder)
    await chown(folder, nameless, nameless)
    const file = join(folder, 'audit.log')
    t.match(await runIn(dataFolder, ['setting', 'set', 'audit_log', file]), { status: 0, err: '' })
    t.match(await stat(file), { uid: nameless, gid: nameless })
    await gateway.settings.set(new Map([['audit_log', '']]))
  },
)
