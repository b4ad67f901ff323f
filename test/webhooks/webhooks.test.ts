/** Webhooks over a database: what they get, what receivers answer, and what follows. Time is that of the tests. */
import { readFile } from 'node:fs/promises'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { asPath } from '../../src/base/path.js'
import type { AuditEvent, WebhookRow } from '../../src/database/audit-rows.js'
import type { Store } from '../../src/database/tables.js'
import { maxDeliveries } from '../../src/database/webhooks.js'
import { EgressGuard } from '../../src/net/egress.js'
import { createLog } from '../../src/process/log.js'
import type { HookFields } from '../../src/webhooks/hook-fields.js'
import { HookQueue, usualTimes, type DeliveryTimes } from '../../src/webhooks/hook-queue.js'
import { Webhooks } from '../../src/webhooks/webhooks.js'
import { engines } from '../database/engines.js'
import { openNewStore } from '../database/new-store.js'
import { lacks } from '../programs.js'
import { makeCertificate } from '../servers/certificates.js'
import { until } from '../until.js'
import { accept, startReceiver, verify, type Receiver } from './receiver.js'

const loopback = new EgressGuard(() => '127.0.0.0/8')
const minute = 60_000
const hour = 60 * minute
const schedule = [1, 1, 1, 1, 1, 1, 1, 1, 1]

interface Opened {
  readonly webhooks: Webhooks
  readonly store: Store
  readonly now: () => number
  /** Moves the clock, and lets what is due by then begin. */
  readonly move: (milliseconds: number) => void
  readonly add: (
    fields: Partial<HookFields> & Pick<HookFields, 'url'>,
  ) => Promise<{ readonly id: number; readonly secret: string }>
  /** Stores events, as the audit does. */
  readonly record: (...events: readonly Partial<AuditEvent>[]) => Promise<readonly string[]>
  readonly row: (id: number) => Promise<WebhookRow>
}

let number = 0

/** An event with an id of its own. */
function eventOf(fields: Partial<AuditEvent> = {}): AuditEvent {
  number += 1
  const actor = { userId: 7, name: 'ann', protocol: 'webdav', address: '192.0.2.1', credential: 'token:abc' }
  const id = `01900000-0000-7000-8000-${String(number).padStart(12, '0')}`
  const file = { kind: 'file.stored', path: asPath('/ann/a.txt'), size: 5, entry: 'file' } as const
  return { id, time: Date.now(), node: 'host:1', actor, result: 'done', ...file, ...fields }
}

/** Webhooks that deliver from now on. */
async function open(
  t: Test,
  {
    location = `${t.testdir()}/data.db`,
    siteUrl = '',
    egress = loopback,
    ...times
  }: Partial<DeliveryTimes> & {
    readonly location?: string
    readonly siteUrl?: string
    readonly egress?: EgressGuard
  } = {},
): Promise<Opened> {
  const store = await openNewStore(location)
  let now = Date.now()
  const log = createLog('silent')
  const fixed: DeliveryTimes = { ...usualTimes, jitter: () => 1, schedule, now: () => now, ...times }
  const webhooks = await Webhooks.open({ store, egress, siteUrl, log, times: fixed })
  webhooks.begin()
  t.teardown(async () => {
    webhooks.end()
    await store.close()
  })
  return {
    webhooks,
    store,
    now: () => now,
    move(milliseconds) {
      now += milliseconds
      webhooks.handle({ hooks: Array.from({ length: 20 }, (_, id) => id) })
    },
    async add(fields) {
      const { row, secret } = await webhooks.create({
        name: fields.url,
        kinds: [],
        paths: [],
        enabled: true,
        ...fields,
      })
      return { id: row.id, secret }
    },
    async record(...events) {
      const complete = events.map(eventOf)
      await store.audit.insert(complete, webhooks.deliveriesOf)
      webhooks.onWritten()
      return complete.map(({ id }) => id)
    },
    async row(id) {
      const row = (await store.webhooks.all()).find((each) => each.id === id)
      if (row === undefined) throw new Error('there is no such webhook')
      return row
    },
  }
}

/** Runs a test with a new database of each engine. */
function onEachEngine(title: string, work: (t: Test, location: string) => Promise<void>): void {
  for (const engine of engines) {
    const { name, skip } = engine
    void t.test(`${name}: ${title}`, { skip }, async (t) => work(t, await engine.newDatabase(t)))
  }
}

/** Whether the receiver has got so many messages, and no other one is stored. */
async function hasGot({ store }: Opened, receiver: Receiver, count: number): Promise<boolean> {
  return until(async () => receiver.received.length >= count && (await store.webhookDeliveries.counts()).size === 0)
}

onEachEngine('a receiver gets each event once, as a CloudEvent that is signed', async (t, location) => {
  const opened = await open(t, { location, siteUrl: 'https://files.example.org' })
  const receiver = await startReceiver(t)
  const { secret } = await opened.add({ url: receiver.url })
  const refusal = { kind: 'moved', result: 'refused', error: 'denied', decidedBy: 'the grant at /ann' } as const
  const [stored, moved, signIn] = await opened.record(
    {},
    { ...refusal, path: asPath('/ann/é'), target: asPath('/b') },
    { kind: 'signin.refused', result: 'refused', path: undefined, size: undefined, entry: undefined },
  )
  t.ok(await hasGot(opened, receiver, 3))
  t.same([...receiver.ids].sort(), [stored, moved, signIn])
  const got = (id = '') => receiver.received.find(({ event }) => event.id === id)
  for (const message of receiver.received) verify(secret, message)
  t.throws(() => verify(`whsec_${Buffer.alloc(32).toString('base64')}`, receiver.received[0] as never), /signature/i)
  t.match(got(stored)?.event, {
    specversion: '1.0',
    type: 'tidegate.file.stored',
    source: 'https://files.example.org',
    subject: '/ann/a.txt',
    datacontenttype: 'application/json',
    data: {
      ...{ kind: 'file.stored', result: 'done', node: 'host:1', path: '/ann/a.txt', size: 5, entry: 'file' },
      ...{ user_id: 7, user: 'ann', protocol: 'webdav', address: '192.0.2.1', credential: 'token:abc' },
    },
  })
  t.match(got(moved)?.event, {
    type: 'tidegate.moved.refused',
    subject: '/ann/é',
    data: { target: '/b', error: 'denied', decided_by: 'the grant at /ann' },
  })
  t.match(got(signIn)?.event, { type: 'tidegate.signin.refused', subject: undefined })
  t.equal(got(stored)?.headers['webhook-id'], stored, 'what a receiver knows repeated messages by')

  await opened.store.audit.insert([eventOf({ id: stored ?? '' })], opened.webhooks.deliveriesOf)
  opened.webhooks.onWritten()
  t.same(await opened.store.webhookDeliveries.counts(), new Map(), 'an event that is known is not delivered again')
})

void t.test('without a URL of the site the source names the installation', async (t) => {
  const opened = await open(t, { siteUrl: '/files' })
  const receiver = await startReceiver(t)
  await opened.add({ url: receiver.url })
  await opened.record({})
  t.ok(await hasGot(opened, receiver, 1))
  t.match(receiver.received[0]?.event.source, /^urn:tidegate:[0-9a-f-]{36}$/)
})

void t.test('a webhook gets the kinds and paths that it asks for', async (t) => {
  const opened = await open(t)
  const receiver = await startReceiver(t)
  const typesFor = async (fields: Partial<HookFields>, ...events: readonly Partial<AuditEvent>[]) => {
    const before = receiver.received.length
    const { id } = await opened.add({ url: receiver.url, ...fields })
    await opened.record(...events)
    await until(async () => (await opened.store.webhookDeliveries.counts()).size === 0)
    await opened.webhooks.delete(id)
    return receiver.received
      .slice(before)
      .map(({ event }) => `${event.type.slice(9)} ${event.subject ?? ''}`)
      .sort()
  }
  const at = (path: string, target?: string) => ({ path: asPath(path), ...(target && { target: asPath(target) }) })
  t.same(await typesFor({ kinds: ['file.*'] }, {}, { kind: 'file.replaced' }, { kind: 'removed' }), [
    'file.replaced /ann/a.txt',
    'file.stored /ann/a.txt',
  ])
  t.same(await typesFor({ kinds: ['file.stored'] }, {}, { result: 'refused' }, { result: 'failed' }), [
    'file.stored /ann/a.txt',
  ])
  t.same(await typesFor({ kinds: ['file.stored.failed'] }, {}, { result: 'refused' }, { result: 'failed' }), [
    'file.stored.failed /ann/a.txt',
  ])
  const places = [at('/projects'), at('/projects/x/y'), at('/projects2'), at('/a', '/projects/b'), { path: undefined }]
  t.same(await typesFor({ paths: ['/projects/'] }, ...places), [
    'file.stored /a',
    'file.stored /projects',
    'file.stored /projects/x/y',
  ])
  t.same(await typesFor({ paths: ['/**/*.jpg', '/x?'] }, at('/a.jpg'), at('/b/c.jpg'), at('/b/c.png'), at('/xy')), [
    'file.stored /a.jpg',
    'file.stored /b/c.jpg',
    'file.stored /xy',
  ])
  t.same(await typesFor({ enabled: false }, {}), [])
})

void t.test('fields that a webhook cannot have are refused', async (t) => {
  const { webhooks, add, store } = await open(t)
  const url = 'http://127.0.0.1:1/'
  for (const fields of [
    { url: 'ftp://example.org/' },
    { url: 'http://user:password@example.org/' },
    { url: 'nowhere' },
    { url: `http://example.org/${'x'.repeat(2048)}` },
    { url, name: ' ' },
    { url, name: 'x'.repeat(256) },
    { url, name: 'a\0b' },
    { url, name: 'a\nb' },
    { url, kinds: ['file.eaten'] },
    { url, kinds: ['task.ended.failed'] },
    { url, kinds: ['.*'] },
    { url, kinds: Array<string>(51).fill('moved') },
    { url, paths: ['projects'] },
    { url, paths: ['/a/../b'] },
    { url, paths: ['/{a'] },
    { url, paths: [`/${'x'.repeat(2000)}`] },
    { url, paths: Array<string>(17).fill('/a') },
  ]) {
    await t.rejects(add(fields), { code: 'invalid' }, JSON.stringify(fields).slice(0, 80))
  }
  const { id } = await add({ url, name: 'one' })
  await t.rejects(add({ url, name: 'one' }), { code: 'exists' })
  await t.rejects(webhooks.update(id, { kinds: ['nothing'] }), { code: 'invalid' })
  await t.rejects(webhooks.update(99, { enabled: true }), { code: 'not_found' })
  await t.rejects(webhooks.delete(99), { code: 'not_found' })
  t.equal((await store.webhooks.all()).length, 1)
  for (let count = 1; count < 50; count++) await add({ url, name: `hook ${count}` })
  await t.rejects(add({ url, name: 'one more' }), { code: 'invalid', reason: 'there can be at most 50 webhooks' })
})

onEachEngine(
  'an attempt that fails is repeated by the schedule, and after the last the webhook is off',
  async (t, location) => {
    const opened = await open(t, { location, schedule: usualTimes.schedule })
    const receiver = await startReceiver(t, (answer) => answer.writeHead(500).end())
    const { id } = await opened.add({ url: receiver.url })
    const [event] = await opened.record({})
    const waiting = async () => (await opened.store.webhookDeliveries.next(id, 1))[0]
    const pauses = [5000, 5 * minute, 30 * minute, ...[2, 5, 10, 14, 20, 24].map((hours) => hours * hour)]
    for (const [index, pause] of pauses.entries()) {
      t.ok(await until(async () => (await waiting())?.attempts === index + 1))
      const last = { lastStatus: 500, lastError: 'the server answers with status 500', failedAt: undefined }
      t.match(await waiting(), { ...last, nextAt: opened.now() + pause })
      opened.move(pause)
    }
    t.ok(await until(async () => !(await opened.row(id)).enabled))
    t.equal(receiver.received.length, 10)
    t.match(await opened.row(id), { disabledReason: /^10 attempts .* have failed; the last: .* status 500$/ })
    t.match(await opened.webhooks.list(), [{ waiting: 0, failed: 1 }])
    t.match(await opened.webhooks.deliveries(id, true, { after: 0, limit: 9 }), [{ eventId: event, attempts: 10 }])
    await opened.record({})
    t.match(await opened.webhooks.list(), [{ waiting: 0, failed: 1 }], 'what happens while it is off is not stored')

    await t.rejects(opened.webhooks.replay(id, 'failed'), { code: 'invalid' })
    receiver.script = accept
    await opened.webhooks.update(id, { enabled: true })
    t.match(await opened.row(id), { enabled: true, disabledReason: undefined })
    t.equal(await opened.webhooks.replay(id, 'failed'), 1)
    t.ok(await hasGot(opened, receiver, 11))
    t.equal(receiver.ids.at(-1), event)
  },
)

onEachEngine('a receiver that is gone is switched off at once, and what waits is kept', async (t, location) => {
  const opened = await open(t, { location })
  const receiver = await startReceiver(t, (answer) => answer.writeHead(410).end())
  const { id } = await opened.add({ url: receiver.url })
  await opened.record({}, {}, {}, {}, {}, {}, {}, {}, {}, {})
  t.ok(await until(async () => !(await opened.row(id)).enabled))
  t.match(await opened.row(id), { disabledReason: 'the receiver has answered 410: it is gone' })
  t.ok(receiver.received.length < 10)
  receiver.script = accept
  await opened.webhooks.update(id, { enabled: true })
  await until(async () => (await opened.webhooks.list())[0]?.waiting === 0)
  await opened.webhooks.replay(id, 'failed')
  t.ok(await until(async () => (await opened.store.webhookDeliveries.counts()).size === 0))
  t.equal(new Set(receiver.ids).size, 10)
})

onEachEngine('a webhook that is switched on while it is being switched off delivers', async (t, location) => {
  const opened = await open(t, { location })
  const { webhooks } = opened.store
  const switchOff = webhooks.switchOff.bind(webhooks)
  webhooks.switchOff = async (id, reason) => {
    const done = await switchOff(id, reason)
    receiver.script = accept
    await webhooks.update(id, { enabled: true, disabledReason: '' })
    return done
  }
  const receiver = await startReceiver(t, (answer) => answer.writeHead(410).end())
  const { id } = await opened.add({ url: receiver.url })
  await opened.record({})
  t.ok(await until(() => receiver.script === accept))
  const [event = ''] = await opened.record({})
  t.ok(await until(() => receiver.ids.includes(event)))
  t.equal((await opened.row(id)).enabled, true)
})

for (const [status, form] of [
  [429, 'seconds'],
  [503, 'a date'],
] as const) {
  onEachEngine(`Retry-After in ${form} is obeyed after ${status}, for at most a day`, async (t, location) => {
    const opened = await open(t, { location })
    const start = opened.now()
    const wanted = form === 'seconds' ? '3600' : new Date(start + hour + 1000).toUTCString()
    const receiver = await startReceiver(t, (answer, turn) =>
      answer.writeHead(turn < 3 ? status : 200, { 'retry-after': turn < 2 ? wanted : '864000' }).end(),
    )
    const { id } = await opened.add({ url: receiver.url })
    const [event] = await opened.record({})
    const row = async () => {
      return (await opened.store.webhookDeliveries.next(id, 9)).find(({ eventId }) => eventId === event)
    }
    t.ok(await until(async () => (await row())?.attempts === 1))
    const first = ((await row())?.nextAt ?? 0) - start
    t.ok(first >= hour && first <= hour + 2000, `${first} ms`)
    const [other] = await opened.record({})
    opened.move(hour / 2)
    opened.move(hour / 2 + minute)
    t.ok(await until(async () => (await row())?.attempts === 2), 'no other event is sent meanwhile')
    t.equal((await row())?.nextAt, opened.now() + 24 * hour)
    opened.move(24 * hour)
    t.ok(await hasGot(opened, receiver, 4))
    t.same([...receiver.ids].sort(), [event, event, event, other])
  })
}

void t.test('after the clock was set back, what was to be sent in its future is sent', async (t) => {
  const opened = await open(t, { schedule: [5000, 5 * minute] })
  const receiver = await startReceiver(t, (answer, turn) => answer.writeHead(turn === 1 ? 500 : 200).end())
  const { id } = await opened.add({ url: receiver.url })
  const [event] = await opened.record({})
  t.ok(await until(async () => (await opened.store.webhookDeliveries.next(id, 1))[0]?.attempts === 1))
  // It was three days fast.
  opened.move(-72 * hour)
  t.ok(await hasGot(opened, receiver, 2))
  t.same(receiver.ids, [event, event])
})

onEachEngine('a redirect is a failure, and is not followed', async (t, location) => {
  const opened = await open(t, { location })
  const target = await startReceiver(t)
  const receiver = await startReceiver(t, (answer, turn) =>
    turn === 1 ? answer.writeHead(302, { location: target.url }).end() : answer.writeHead(200).end(),
  )
  const { id } = await opened.add({ url: receiver.url })
  await opened.record({})
  t.ok(await until(async () => (await opened.store.webhookDeliveries.next(id, 1))[0]?.lastStatus === 302))
  opened.move(1000)
  t.ok(await hasGot(opened, receiver, 2))
  t.equal(target.received.length, 0)
})

onEachEngine('a receiver that hangs delays no other one', async (t, location) => {
  const opened = await open(t, { location, timeout: 100 })
  const hangs = () => undefined
  const silent = await startReceiver(t, hangs)
  const dripping = await startReceiver(t, (answer) => answer.writeHead(200).write('.'))
  const receiver = await startReceiver(t)
  const { id } = await opened.add({ url: silent.url })
  const drips = await opened.add({ url: dripping.url })
  await opened.add({ url: receiver.url })
  const events = await opened.record({}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {})
  // On a busy machine, this receiver may be late too, and is asked again.
  const moved = () => opened.move(1000)
  t.ok(await until(() => (moved(), new Set(receiver.ids).size === events.length)))
  const left = async (hook: number) => (await opened.store.webhookDeliveries.counts()).get(hook)?.waiting
  t.ok(await until(async () => (moved(), (await left(drips.id)) === undefined)), 'the status tells enough')
  t.ok(await until(async () => (await opened.store.webhookDeliveries.next(id, 20)).some((row) => row.attempts > 0)))
  const failed = (await opened.store.webhookDeliveries.next(id, 20)).find((row) => row.attempts > 0)
  t.match(failed, { lastStatus: undefined, lastError: 'the server does not answer in time' })
})

void t.test('a receiver that gives no response, or one without an end, has failed or is left', async (t) => {
  const { webhooks, add } = await open(t, { timeout: 2000 })
  const ends = '\r\nContent-Length: 0\r\n\r\n'
  const again = (socket: Socket, text: string, first = text) => {
    socket.write(first)
    const timer = setInterval(() => socket.write(text), 20)
    socket.once('close', () => clearInterval(timer))
  }
  const late = /does not answer in time/
  for (const [what, answer, outcome] of [
    ['nothing', (socket: Socket) => socket.destroy(), { status: undefined, error: /ECONNRESET/ }],
    [
      'another protocol',
      (socket: Socket) => socket.write('HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'),
      { status: undefined, error: 'the server sent no response' },
    ],
    ['no HTTP', (socket: Socket) => socket.write('SSH-2.0-x\r\n'), { error: /malformed/ }],
    [
      'very long headers',
      (socket: Socket) => socket.write(`HTTP/1.1 200 x\r\na: ${'b'.repeat(1e6)}`),
      { error: /malformed/ },
    ],
    ['only "go on"', (socket: Socket) => again(socket, 'HTTP/1.1 100 x\r\n\r\n'), { error: late }],
    ['headers without an end', (socket: Socket) => again(socket, 'a: b\r\n', 'HTTP/1.1 200 x\r\n'), { error: late }],
    ['an unknown status', (socket: Socket) => socket.end(`HTTP/1.1 999 x${ends}`), { status: 999, error: /999/ }],
    [
      'a huge body',
      (socket: Socket) => socket.write(`HTTP/1.1 200 x\r\nContent-Length: 9999999999\r\n\r\n${'x'.repeat(1e6)}`),
      { status: 200, error: undefined },
    ],
  ] as const) {
    const server = createServer((socket) => {
      socket.on('error', () => undefined).once('data', () => answer(socket))
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => server.close())
    const { id } = await add({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, name: what })
    t.match(await webhooks.test(id), outcome, what)
  }
})

void t.test('only an address that the guard allows, and a valid certificate, get events', async (t) => {
  const opened = await open(t, { egress: new EgressGuard(() => '') })
  const receiver = await startReceiver(t)
  const { id } = await opened.add({ url: receiver.url })
  const byName = await opened.add({ url: receiver.url.replace('127.0.0.1', 'localhost') })
  const reason = 'the address leads into a network that is not allowed'
  for (const hook of [id, byName.id]) t.match(await opened.webhooks.test(hook), { status: undefined, error: reason })
  await opened.record({})
  t.ok(await until(async () => (await opened.store.webhookDeliveries.next(id, 1))[0]?.lastError === reason))
  t.equal(receiver.received.length, 0)
})

void t.test('a receiver without a valid certificate gets nothing', { skip: lacks('openssl') }, async (t) => {
  const { webhooks, add } = await open(t)
  const files = await makeCertificate(t.testdir())
  const tls = { key: await readFile(files.key), cert: await readFile(files.certificate) }
  const selfSigned = await startReceiver(t, accept, tls)
  const plain = await startReceiver(t)
  const { id } = await add({ url: selfSigned.url })
  t.match(await webhooks.test(id), { status: undefined, error: /^the certificate of the server is not valid/ })
  const mistaken = await add({ url: plain.url.replace('http:', 'https:') })
  t.match(await webhooks.test(mistaken.id), { status: undefined, error: /^the connection to the server failed/ })
  const closing = createServer((socket) => void socket.destroy()).listen(0, '127.0.0.1')
  t.teardown(() => closing.close())
  await once(closing, 'listening')
  const broken = await add({ url: `https://127.0.0.1:${(closing.address() as { port: number }).port}/` })
  t.match(await webhooks.test(broken.id), { status: undefined, error: /^the connection to the server failed/ })
  t.same([...selfSigned.received, ...plain.received], [])
})

void t.test('after a rotation both secrets sign for a day', async (t) => {
  const opened = await open(t)
  const receiver = await startReceiver(t)
  const { id, secret } = await opened.add({ url: receiver.url })
  const next = await opened.webhooks.rotate(id)
  t.not(next, secret)
  t.match(next, /^whsec_[A-Za-z0-9+/]{43}=$/)
  t.match(await opened.webhooks.test(id), { status: 204, error: undefined })
  const [message] = receiver.received
  if (message === undefined) throw new Error('nothing was received')
  t.equal(message.event.type, 'tidegate.test')
  for (const each of [secret, next]) verify(each, message)
  opened.move(24 * hour)
  await opened.webhooks.test(id)
  t.equal(receiver.received.at(-1)?.headers['webhook-signature']?.split(' ').length, 1)
  for (const shown of await opened.webhooks.list()) t.notMatch(JSON.stringify(shown), /whsec_/)
})

void t.test('what is received while the table is read is not sent again', async (t) => {
  const row = { id: 1, hookId: 1, eventId: 'a', body: '{}', attempts: 0, nextAt: 0, lastStatus: undefined }
  const rows = [{ ...row, lastError: undefined, failedAt: undefined }]
  let finishReading: (() => void) | undefined
  let answer: (() => void) | undefined
  let sent = 0
  const deliveries = {
    next: () => (sent === 0 ? Promise.resolve(rows) : new Promise((resolve) => (finishReading = () => resolve(rows)))),
    delete: () => Promise.resolve(),
  }
  const queue = new HookQueue({
    ...{ hookId: 1, store: { webhookDeliveries: deliveries as never }, times: usualTimes, log: createLog('silent') },
    send: () => {
      sent += 1
      return new Promise((resolve) => (answer = () => resolve({ status: 200, retryAfter: undefined })))
    },
    switchOff: () => Promise.resolve(),
  })
  t.teardown(() => queue.end())
  queue.wake()
  t.ok(await until(() => answer !== undefined))
  queue.wake()
  t.ok(await until(() => finishReading !== undefined), 'the table is read while the delivery is sent')
  answer?.()
  await new Promise(setImmediate)
  finishReading?.()
  await new Promise(setImmediate)
  t.equal(sent, 1)
})

for (const engine of engines) {
  void t.test(
    `${engine.name}: one event, and those of a time, are delivered again`,
    { skip: engine.skip },
    async (t) => {
      const opened = await open(t, { location: await engine.newDatabase(t) })
      const receiver = await startReceiver(t)
      const { id } = await opened.add({ url: receiver.url, kinds: ['file.*'] })
      const start = Date.now()
      const times = [1, 2, 3, 4].map((minutes) => ({ time: start - minutes * minute }))
      const events = await opened.record(...times, { kind: 'removed', time: start - 2 * minute })
      t.ok(await hasGot(opened, receiver, 4))
      const again = async (which: Parameters<Webhooks['replay']>[1]) => {
        const before = receiver.received.length
        const count = await opened.webhooks.replay(id, which)
        t.ok(await hasGot(opened, receiver, before + count))
        return receiver.ids.slice(before).sort()
      }
      t.same(await again({ eventIds: [events[1] ?? '', events[1] ?? ''] }), [events[1]])
      t.same(await again({ from: start - 3 * minute, to: start - minute }), [events[1], events[2]].sort())
      t.same(await again({ from: start, to: start + minute }), [])
      await t.rejects(opened.webhooks.replay(id, { eventIds: ['none'] }), { code: 'invalid' })
      await t.rejects(opened.webhooks.replay(99, 'failed'), { code: 'not_found' })
      await opened.webhooks.delete(id)
      const [late] = await opened.record({})
      t.same(await opened.store.webhookDeliveries.counts(), new Map())
      await opened.store.audit.insert([eventOf()], () => [{ hookId: id, eventId: 'x', body: '', nextAt: 0 }])
      t.ok(await opened.store.audit.get(late ?? ''), 'an event is stored, even if a hook was deleted meanwhile')
    },
  )

  void t.test(
    `${engine.name}: a full outbox switches its webhook off, and no other`,
    { skip: engine.skip },
    async (t) => {
      const location = await engine.newDatabase(t)
      const opened = await open(t, { location })
      opened.webhooks.end()
      const full = await opened.add({ url: 'http://127.0.0.1:1/' })
      const other = await opened.add({ url: 'http://127.0.0.1:2/', kinds: ['removed'] })
      await engine.query(
        location,
        `with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < ${maxDeliveries})
         insert into webhook_outbox (hook_id, event_id, body, attempts, next_at)
         select ${full.id}, n, '{}', 0, 0 from numbers`,
      )
      t.equal((await opened.row(full.id)).enabled, true)
      await opened.record({ kind: 'removed' })
      t.match(await opened.row(full.id), { enabled: false, disabledReason: /^more than 100000 deliveries/ })
      await opened.record({ kind: 'removed' })
      t.match(await opened.webhooks.list(), [
        { waiting: maxDeliveries + 1 },
        { id: other.id, enabled: true, waiting: 2 },
      ])
    },
  )
}
