/** `tidegate audit` and `tidegate sign-ins`, beside a running daemon and without one. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { csv } from '../../src/audit/forms.js'
import { asPath } from '../../src/base/path.js'
import { openStore } from '../../src/database/store.js'
import type { Store } from '../../src/database/tables.js'
import { anEvent } from '../audit/an-event.js'
import { startGateway } from '../gateway.js'
import { storeOf, storeVariables } from '../store-location.js'
import { until } from '../until.js'
import { main, outcomeOf, type Outcome } from './outcome.js'
import t from 'tap'

const start = Date.UTC(2025, 10, 30)
const events = [
  anEvent({ time: start, path: asPath('/a/\u0007x'), size: 5 }),
  anEvent({ time: start + 1000, kind: 'moved', path: asPath('/a/x'), target: asPath('/b') }),
  anEvent({ time: start + 2000, kind: 'removed', path: asPath('/c'), result: 'refused', error: 'denied' }),
  anEvent({ time: start + 3000, kind: 'admin.setting', fields: ['site_title', 'token_hours'] }),
]
const to = ['--to', '2025-12-01T00:00:00Z']

void t.test('commands of the audit read while a daemon runs, and when none does', async (t) => {
  const running = await startGateway(t)
  const { url, dataFolder, gateway } = running
  const environment = { ...process.env, ...(await storeVariables(dataFolder)) }
  const begin = (words: readonly string[]) =>
    spawn(process.execPath, [main, ...words, '--data', dataFolder], { env: environment })
  const run = (words: readonly string[]): Promise<Outcome> => outcomeOf(begin(words))
  await gateway.store.audit.insert(events)

  const text = [
    '2025-11-30T00:00:00.000Z  ann webdav 192.0.2.7  file.stored  /a/\ufffdx  5 bytes',
    '2025-11-30T00:00:01.000Z  ann webdav 192.0.2.7  moved  /a/x → /b',
    '2025-11-30T00:00:02.000Z  ann webdav 192.0.2.7  removed refused  /c  denied',
    '2025-11-30T00:00:03.000Z  ann webdav 192.0.2.7  admin.setting  site_title token_hours',
  ]
  t.strictSame(await run(['audit', ...to]), { status: 0, out: `${text.join('\n')}\n`, err: '' })
  t.strictSame((await run(['audit', ...to, '--limit', '3', '--user', 'ann'])).out, `${text.slice(1).join('\n')}\n`)
  const newest = [...events].reverse()
  t.equal((await run(['audit', ...to, '--csv'])).out, csv.head + newest.map(csv.of).join(''))
  const { out: json } = await run(['audit', ...to, '--json', '--kind', 'moved,removed', '--path', '/b'])
  t.match(JSON.parse(json), { id: events[1]?.id, kind: 'moved', target: '/b' })
  for (const words of [
    ['--kind', 'x'],
    ['--from', 'now'],
    ['--path', 'a'],
    ['--limit', '10001'],
  ]) {
    t.match(await run(['audit', ...words]), { status: 2, out: '' }, words.join(' '))
  }

  const following = begin(['audit', '--follow', '--kind', 'link.made', '--limit', '1'])
  t.teardown(() => following.kill('SIGKILL'))
  let told = ''
  following.stdout.setEncoding('utf8').on('data', (chunk: string) => (told += chunk))
  await gateway.store.audit.insert([anEvent({ kind: 'link.made', path: asPath('/first') })])
  t.ok(await until(() => told.includes('/first')))
  await gateway.store.audit.insert([anEvent(), anEvent({ time: start, kind: 'link.made', path: asPath('/late') })])
  t.ok(await until(() => told.includes('/late')))
  t.match(told.split('\n'), [/\/first$/, /\/late$/, ''], 'each once')
  following.kill('SIGINT')
  await once(following, 'close')

  const signIn = async (password: string) => {
    const response = await fetch(`${url}/api/auth/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ username: 'admin', password }),
    })
    return ((await response.json()) as { code: number }).code
  }
  t.match(await run(['sign-ins', 'list', '--json']), { status: 0, out: '[]\n' })
  for (let n = 0; n < 5; n++) await signIn('wrong')
  t.equal(await signIn('wrong'), 429)
  const { out: listed } = await run(['sign-ins', 'list'])
  t.match(listed, /^address +127\.0\.0\.1 +5 +20/m)
  t.match(listed, /^pair +127\.0\.0\.1 +admin +\d/m)
  t.match(await run(['sign-ins', 'unlock']), { status: 2, err: /--address/ })
  t.match(await run(['sign-ins', 'unlock', '--address', 'x']), { status: 2, err: /--address/ })
  t.match(await run(['sign-ins', 'unlock', '--user', 'nobody']), { status: 1, err: /nobody/ })
  t.match(await run(['sign-ins', 'unlock', '--address', '127.0.0.1']), { status: 0, out: /are forgotten/ })
  t.equal(await signIn('wrong'), 400)
  t.match(await run(['sign-ins', 'list', '--json']), { out: '[]\n' })
  const unlocked = async (store: Pick<Store, 'audit'>) =>
    (await store.audit.after(0, { kinds: ['signin.unlocked'], result: 'done' }, 10)).events.map(
      ({ actor }) => actor.protocol,
    )
  await until(async () => (await unlocked(gateway.store)).length > 0)
  t.same(await unlocked(gateway.store), ['http'], 'what the daemon has done is one event, that of the daemon')

  await running.stop()
  t.strictSame(
    (await run(['audit', ...to, '--kind', 'file.stored,moved,removed,admin.setting'])).out,
    `${text.join('\n')}\n`,
  )
  const store = await openStore(await storeOf(dataFolder, t))
  t.teardown(() => store.close())
  for (let n = 0; n < 5; n++) await store.signIns.record({ kind: 'password', network: '192.0.2.9', account: 'admin' })
  t.match((await run(['sign-ins', 'list'])).out, /^address +192\.0\.2\.9 +5/m, 'what nodes have left in the database')
  t.match(await run(['sign-ins', 'unlock', '--user', 'admin']), { status: 0 })
  t.same(await unlocked(store), ['http', 'command line'])
  t.match(await run(['sign-ins', 'list', '--json']), { out: '[]\n' })
})
