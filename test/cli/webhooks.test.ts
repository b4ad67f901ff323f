/** `tidegate webhook …`, beside a running daemon that delivers. */
import { spawn } from 'node:child_process'
import t from 'tap'
import { startGateway } from '../gateway.js'
import { storeVariables } from '../store-location.js'
import { until } from '../until.js'
import { startReceiver, verify } from '../webhooks/receiver.js'
import { main, outcomeOf, type Outcome } from './outcome.js'

void t.test('webhook commands take effect in a running daemon', async (t) => {
  const { davUrl, dataFolder, gateway, adminPassword } = await startGateway(t)
  await gateway.settings.set(new Map([['egress_networks', '127.0.0.0/8']]))
  const receiver = await startReceiver(t)
  const environment = { ...process.env, ...(await storeVariables(dataFolder)) }
  const run = (words: readonly string[], input = ''): Promise<Outcome> => {
    const child = spawn(process.execPath, [main, 'webhook', ...words, '--data', dataFolder], { env: environment })
    child.stdin.on('error', () => undefined)
    child.stdin.end(input)
    return outcomeOf(child)
  }
  const authorization = `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}`
  const put = (name: string) => fetch(davUrl + name, { method: 'PUT', body: name, headers: { authorization } })
  const got = (count: number) => until(() => receiver.received.length === count)

  const added = await run(
    ['add', 'index', '-', '--kind', 'file.*', 'removed', '--path', '/docs', '--json'],
    receiver.url,
  )
  const { secret } = JSON.parse(added.out) as { secret: string }
  t.match(await run(['add', 'index', receiver.url]), { status: 1 })
  t.match(await run(['add', 'bad', 'ftp://example.org/']), { status: 2 })
  t.match(await run(['test', 'index']), { status: 0, out: /^accepted with status 204/ })
  t.ok(await got(1))
  for (const message of receiver.received) verify(secret, message)

  await fetch(`${davUrl}docs`, { method: 'MKCOL', headers: { authorization } })
  await put('docs/a.txt')
  await put('b.txt')
  t.ok(await got(2), 'the daemon knows the webhook')
  t.equal(receiver.received[1]?.event.subject, '/docs/a.txt')

  t.match(await run(['edit', 'index']), { status: 2, err: /nothing to change/ })
  t.match(await run(['edit', 'index', '--path', '/']), { status: 0 })
  t.ok(await until(async () => (await put('c.txt')).ok && receiver.ids.length > 2), 'the daemon knows the change')
  const rotated = await run(['rotate', 'index'])
  t.match(rotated, { status: 0, out: /^whsec_.*\n$/ })
  t.match(await run(['disable', 'index']), { status: 0, out: 'the webhook index is disabled\n' })
  t.match(JSON.parse((await run(['list', '--json'])).out), [{ name: 'index', enabled: false, waiting: 0, failed: 0 }])
  t.match(await run(['replay', 'index']), { status: 2, err: /is off/ })

  receiver.script = (answer) => answer.writeHead(410).end()
  t.match(await run(['enable', 'index']), { status: 0 })
  t.ok(await until(async () => (await put('d.txt')).ok && (await gateway.webhooks.list())[0]?.failed === 1))
  t.match(await run(['failures', 'index']), { status: 0, out: /file\.replaced|file\.stored/ })
  t.match(await run(['test', 'index']), { status: 1, out: /status 410/ })
  receiver.script = (answer) => answer.writeHead(200).end()
  await run(['enable', 'index'])
  t.match(await run(['replay', 'index']), { status: 0, out: '1 events are delivered again\n' })
  t.ok(await until(async () => (await gateway.webhooks.list())[0]?.failed === 0), 'the daemon is told')
  const before = receiver.received.length
  t.match(await run(['replay', 'index', '--from', '2020-01-01T00:00:00Z']), { status: 0 })
  t.ok(await until(() => receiver.received.length > before))
  t.match(await run(['replay', 'index', '--to', '2020-01-01T00:00:00Z']), { status: 2 })
  t.match(await run(['rm', 'index']), { status: 0 })
  t.match(await run(['rm', 'index']), { status: 1, err: /there is no webhook index/ })
})
