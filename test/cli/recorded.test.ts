/** What commands change reaches whoever reads events, also while the daemon does not run. */
import { spawn } from 'node:child_process'
import { chown, mkdir, readFile, readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { generateKeyPair } from '../../protocols/sftp/host-keys.js'
import { recordedCommands } from '../../src/cli/recording.js'
import { openStore } from '../../src/database/store.js'
import type { NumberedEvent } from '../../src/database/audit-rows.js'
import type { Store } from '../../src/database/tables.js'
import { SharePseudonyms } from '../../src/shares/pseudonyms.js'
import { startGateway } from '../gateway.js'
import { storeOf, storeVariables, withoutSqlite } from '../store-location.js'
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

/** What is recorded of commands that succeed: in their order, each with its kind and subject. */
const examples = (key: string): readonly (readonly [words: string, kind: string, subject?: string])[] => [
  ['user add ann --random --permissions share', 'admin.user', 'ann'],
  ['user edit ann --username anna', 'admin.user', 'ann → anna'],
  ['user passwd anna --random', 'admin.user', 'anna'],
  ['user reset-2fa anna', 'admin.user', 'anna'],
  ['user disable anna', 'admin.user', 'anna'],
  ['user enable anna', 'admin.user', 'anna'],
  ['group add staff', 'admin.group', 'staff'],
  ['group edit staff --name crew', 'admin.group', 'staff → crew'],
  ['group join crew anna', 'admin.group', 'crew'],
  ['group leave crew anna', 'admin.group', 'crew'],
  ['grant add / --user anna --allow see', 'admin.grant', '/'],
  ['grant rm / --user anna', 'admin.grant', '/'],
  ['group rm crew', 'admin.group', 'crew'],
  [`key add anna ${key} --title laptop`, 'admin.key', 'anna'],
  ['key rm anna 1', 'admin.key', 'anna'],
  ['share add / --user anna --id plan', 'share.made', 'PLAN'],
  ['share edit plan --visits 3', 'share.changed', 'PLAN'],
  ['share disable plan', 'share.changed', 'PLAN'],
  ['share enable plan', 'share.changed', 'PLAN'],
  ['share rm plan', 'share.removed', 'PLAN'],
  ['storage add /memory Memory', 'admin.storage', '/memory'],
  ['storage edit /memory --remark note', 'admin.storage', '/memory'],
  ['storage disable /memory', 'admin.storage', '/memory'],
  ['storage enable /memory', 'admin.storage', '/memory'],
  ['storage rm /memory', 'admin.storage', '/memory'],
  ['admin password --random', 'admin.user'],
  ['admin token --reset', 'admin.setting'],
  ['admin host-keys --rotate', 'admin.other', 'host-keys'],
  ['setting set site_title Files', 'admin.setting'],
  ['webhook add index http://127.0.0.1:1/ --kind moved', 'admin.webhook', 'index'],
  ['webhook edit index --kind copied', 'admin.webhook', 'index'],
  ['webhook rotate index', 'admin.webhook', 'index'],
  ['webhook replay index', 'admin.webhook', 'index'],
  ['webhook test index', 'admin.webhook', 'index'],
  ['webhook disable index', 'admin.webhook', 'index'],
  ['webhook enable index', 'admin.webhook', 'index'],
  ['webhook rm index', 'admin.webhook', 'index'],
  ['sign-ins unlock --user anna', 'signin.unlocked'],
  ['user rm anna', 'admin.user', 'anna'],
]

void t.test('each command leaves one event', async (t) => {
  const running = await startGateway(t)
  const { dataFolder } = running
  await running.stop()
  const key = join(t.testdir(), 'key.pub')
  await writeFile(key, (await generateKeyPair('ed25519', { comment: '' })).public)
  const all = examples(key)
  for (const [words] of all) t.match(await runIn(dataFolder, words.split(' ')), { err: '' }, words)
  const shows = ['admin token', 'admin host-keys', 'user list', 'audit']
  for (const words of shows) t.match(await runIn(dataFolder, words.split(' ')), { status: 0 }, words)
  const store = await openStore(await storeOf(dataFolder, t))
  t.teardown(() => store.close())
  const plan = (await SharePseudonyms.open(store.secrets)).of('plan')
  t.same(
    (await byCommands(store)).map(({ kind, result, subject }) => [kind, result, subject]),
    all.map(([, kind, subject]) => [kind, 'done', subject === 'PLAN' ? plan : subject]),
  )
  const told = new Set(all.map(([words]) => words.split(' ').slice(0, 2).join(' ')))
  const others = /^(?:import \w+|tidegate restore)$/
  t.same(
    recordedCommands.filter((words) => !told.has(words) && !others.test(words)),
    [],
    'every command has an example',
  )
})

void t.test('an import and a restore are recorded in what they fill', { skip: withoutSqlite }, async (t) => {
  const running = await startGateway(t)
  const { dataFolder } = running
  await running.stop()
  const fixture = (name: string) =>
    fileURLToPath(new URL(`../../../test/fixtures/filebrowser/${name}`, import.meta.url))
  const words = ['import', 'filebrowser', fixture('users.json'), fixture('config.json'), '--root', '/srv']
  const eventsIn = async (folder: string) => {
    const store = await openStore(await storeOf(folder, t))
    const found = await byCommands(store)
    await store.close()
    return found.map(({ kind, result, subject, fields }) => [kind, result, subject, fields?.join()])
  }
  await runIn(dataFolder, [...words, '--dry-run'])
  t.same(await eventsIn(dataFolder), [], 'a dry run stores nothing')
  await runIn(dataFolder, words)
  t.match(await runIn(dataFolder, words), { status: 1, err: /import into a new one/ })
  const imported = [
    ['admin.other', 'done', 'import filebrowser', 'root'],
    ['admin.other', 'refused', 'import filebrowser', 'root'],
  ]
  t.same(await eventsIn(dataFolder), imported)
  const [archive, other] = [join(t.testdir(), 'backup.tar.gz'), join(t.testdir(), 'other')]
  t.match(await runIn(dataFolder, ['backup', archive]), { status: 0 })
  t.match(await runIn(other, ['restore', archive]), { status: 0, err: '' })
  t.same(await eventsIn(other), [...imported, ['admin.other', 'done', 'restore', '']])
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
