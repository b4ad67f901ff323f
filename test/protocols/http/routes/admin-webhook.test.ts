/** The API of webhooks: what admins see and change, and what is never shown. */
import t from 'tap'
import { startReceiver, verify } from '../../../webhooks/receiver.js'
import { until } from '../../../until.js'
import { serve, type Envelope } from '../served.js'

const done = { code: 200, message: 'success', data: null }

void t.test('a webhook is made, tried, changed, rotated and deleted, and its secret is shown once', async (t) => {
  const admin = await serve(t)
  await admin.gateway.settings.set(new Map([['egress_networks', '127.0.0.0/8']]))
  const receiver = await startReceiver(t)
  const fields = { name: 'index', url: receiver.url, kinds: ['file.*'], paths: ['/projects'] }
  const created = await admin.post('/api/admin/webhook/create', fields)
  const { id, secret } = created.data as { id: number; secret: string }
  t.match(secret, /^whsec_/)
  const list = async () => admin.get('/api/admin/webhook/list')
  const shown = { id, ...fields, enabled: true, disabled_reason: null, old_secret_ends: null, waiting: 0, failed: 0 }
  t.match(await list(), { code: 200, data: { content: [shown], total: 1 } })

  t.match(await admin.post(`/api/admin/webhook/test?id=${id}`), { data: { status: 204, error: null } })
  const rotated = await admin.post(`/api/admin/webhook/rotate?id=${id}`)
  const { secret: next } = rotated.data as { secret: string }
  await admin.post(`/api/admin/webhook/test?id=${id}`)
  const [first, second] = receiver.received
  if (first === undefined || second === undefined) throw new Error('two messages were expected')
  verify(secret, first)
  t.throws(() => verify(next, first))
  for (const each of [secret, next]) verify(each, second)
  for (const each of [secret, next]) t.notOk(JSON.stringify(await list()).includes(each.slice(6)))

  t.strictSame(await admin.post('/api/admin/webhook/update', { id, enabled: false, paths: [] }), done)
  t.match(await list(), { data: { content: [{ name: 'index', enabled: false, paths: [], kinds: ['file.*'] }] } })
  t.match(await admin.post(`/api/admin/webhook/test?id=${id}`), { data: { status: 204 } }, 'also while it is off')
  t.strictSame(await admin.post(`/api/admin/webhook/delete?id=${id}`), done)
  t.match(await list(), { data: { content: [], total: 0 } })
})

void t.test('faulty fields and unknown webhooks are refused', async (t) => {
  const admin = await serve(t)
  const fields = { name: 'one', url: 'http://192.0.2.1/' }
  const { data } = await admin.post('/api/admin/webhook/create', fields)
  const { id } = data as { id: number }
  t.match(await admin.post(`/api/admin/webhook/test?id=${id}`), {
    data: { status: null, error: 'the address leads into a network that is not allowed' },
  })
  const missing = { code: 404, message: 'webhook not found' }
  const taken = { code: 409, message: 'a webhook of this name exists already' }
  const refusals: readonly (readonly [path: string, fields: object, expected: Partial<Envelope>])[] = [
    ['create', fields, taken],
    ['create', { ...fields, name: 'two', kind: ['moved'] }, { code: 400, message: 'has no field kind' }],
    ['create', { ...fields, name: 'two', url: 'ftp://x/' }, { code: 400 }],
    ['create', { name: 'two' }, { code: 400, message: 'url: is missing' }],
    ['update', { id: 99, name: 'x' }, missing],
    ['update', { id, kinds: ['eaten'] }, { code: 400 }],
    ['delete?id=99', {}, missing],
    ['rotate?id=99', {}, missing],
    ['test?id=99', {}, missing],
    ['replay', { id: 99 }, missing],
    ['replay', { id, from: '2030-01-01T00:00:00Z' }, { code: 400 }],
    ['replay', { id, event_ids: ['none'] }, { code: 400, message: 'there is no event none' }],
  ]
  for (const [path, sent, expected] of refusals) {
    t.match(await admin.post(`/api/admin/webhook/${path}`, sent), expected, `${path} ${JSON.stringify(sent)}`)
  }
  t.match(await admin.get('/api/admin/webhook/deliveries?id=99'), missing)
})

void t.test('what a receiver has refused is listed, and delivered again', async (t) => {
  const admin = await serve(t)
  await admin.gateway.settings.set(new Map([['egress_networks', '127.0.0.0/8']]))
  const receiver = await startReceiver(t, (answer, turn) => answer.writeHead(turn === 1 ? 410 : 200).end())
  const { data } = await admin.post('/api/admin/webhook/create', {
    ...{ name: 'files', url: receiver.url, kinds: ['file.stored'] },
  })
  const { id } = data as { id: number }
  await admin.put('/a.txt', 'a')
  const hook = async () => (await admin.gateway.webhooks.list())[0]
  t.ok(await until(async () => (await hook())?.enabled === false))
  const deliveries = await admin.get(`/api/admin/webhook/deliveries?id=${id}`)
  const [event] = receiver.ids
  t.match(deliveries.data, { content: [{ event_id: event, attempts: 1, next: null, last_status: 410 }] })
  const [failed] = (deliveries.data as { content: readonly { id: number; body: string }[] }).content
  t.equal(failed?.body, receiver.received[0]?.body)
  t.match(await admin.get(`/api/admin/webhook/deliveries?id=${id}&failed=false`), { data: { content: [] } })
  t.match(await admin.get(`/api/admin/webhook/deliveries?id=${id}&after=${failed?.id}`), { data: { content: [] } })
  t.match(await admin.post('/api/admin/webhook/replay', { id }), { code: 400, message: /is off/ })
  await admin.post('/api/admin/webhook/update', { id, enabled: true })
  t.match(await admin.post('/api/admin/webhook/replay', { id }), { data: { count: 1 } })
  t.ok(await until(async () => (await hook())?.failed === 0 && (await hook())?.waiting === 0))
  const range = { from: '2020-01-01T00:00:00Z', to: '2100-01-01T00:00:00Z' }
  t.match(await admin.post('/api/admin/webhook/replay', { id, ...range }), { data: { count: 1 } })
  t.ok(await until(() => receiver.received.length === 3))
  t.same(new Set(receiver.ids), new Set([event]))
})
