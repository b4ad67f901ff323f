/** What the audit, webhooks, logs and metrics tell of shares: nothing that opens one. */
import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { requestDetails } from '../../protocols/lib/request-target.js'
import type { Log } from '../../src/base/log.js'
import type { NumberedEvent } from '../../src/database/audit-rows.js'
import { SharePseudonyms } from '../../src/shares/pseudonyms.js'
import { main, outcomeOf } from '../cli/outcome.js'
import { startGateway, type RunningGateway } from '../gateway.js'
import { storeVariables } from '../store-location.js'
import { connect } from '../stories/task-client.js'
import { until } from '../until.js'
import { startReceiver } from '../webhooks/receiver.js'
import t from 'tap'

const secrets = (key: string) => ({ obtain: () => Promise.resolve(key) })

void t.test('a pseudonym is that of one share, and of one installation', async (t) => {
  const [one, again, other] = [
    await SharePseudonyms.open(secrets('a')),
    await SharePseudonyms.open(secrets('a')),
    await SharePseudonyms.open(secrets('b')),
  ]
  t.match(one.of('offer'), /^[0-9a-f]{10}$/)
  t.equal(one.of('offer'), again.of('offer'))
  t.not(one.of('offer'), one.of('Offer'))
  t.not(one.of('offer'), other.of('offer'))
})

void t.test('the log has no id of a share', (t) => {
  const logged = (url: string) => requestDetails({ method: 'GET', url } as never).url
  t.equal(logged('/sd/aB3dE6gH/a/b?pwd=x'), '/sd/…/a/b')
  t.equal(logged('/sd/aB3dE6gH'), '/sd/…')
  t.equal(logged('/@s/aB3dE6gH'), '/@s/…')
  t.equal(logged('/dav/%40s/aB3dE6gH/a'), '/dav/%40s/…/a')
  t.equal(logged('/d/sd/file'), '/d/sd/file')
  t.end()
})

/** A log that holds its lines. */
function heldLog(): { readonly log: Log; readonly lines: readonly string[] } {
  const lines: string[] = []
  const add = (details: object, text: string) => void lines.push(`${JSON.stringify(details)} ${text}`)
  const log: Log = { debug: add, info: add, warn: add, error: add, child: () => log }
  return { log, lines }
}

async function run({ dataFolder }: RunningGateway, ...words: readonly string[]): Promise<string> {
  const env = { ...process.env, ...(await storeVariables(dataFolder)) }
  const { status, out, err } = await outcomeOf(spawn(process.execPath, [main, ...words, '--data', dataFolder], { env }))
  if (status !== 0) throw new Error(err)
  return out
}

interface Shown {
  readonly id: string
  readonly pseudonym: string
}

void t.test('what leaves the gateway has pseudonyms, by which admins find shares, and no ids', async (t) => {
  const { log, lines } = heldLog()
  const running = await startGateway(t, { log })
  const { gateway, url } = running
  const receiver = await startReceiver(t)
  const file = join(t.testdir(), 'audit.log')
  const admin = await connect(running)
  const saved = { egress_networks: '127.0.0.0/8', audit_log: file, audit_reads: 'true', audit_details: 'true' }
  await admin.post(
    '/api/admin/setting/save',
    Object.entries(saved).map(([key, value]) => ({ key, value })),
  )
  await admin.post('/api/admin/webhook/create', { name: 'all', url: receiver.url })
  await admin.post('/api/fs/mkdir', { path: '/shared' })
  const ids: string[] = []
  const made = async (fields: object) => {
    const shown = (await admin.post('/api/share/create', { files: ['/shared'], ...fields })) as Shown
    ids.push(shown.id)
    return shown
  }
  const drop = { mode: 'both', webdav: true, pwd: 'code' }
  const chosen = await made({ id: 'Offer-of-May', ...drop })
  const random = await made({})
  await t.rejects(made({ id: 'Offer-of-May' }), /already exist/)
  const fields = { id: chosen.id, new_id: 'Offer-of-June', files: ['/shared'], ...drop }
  const renamed = (await admin.post('/api/share/update', fields)) as Shown
  ids.push(renamed.id)
  const { id } = renamed
  t.equal((await fetch(`${url}/sd/${id}/a?pwd=code`, { method: 'PUT', body: 'of a visitor' })).status, 201)
  t.equal(await (await fetch(`${url}/sd/${id}/a?pwd=code`)).text(), 'of a visitor')
  for (let number = 0; number < 9; number++) await fetch(`${url}/sd/${id}/a?pwd=${number}`, { headers: { range: 'x' } })
  const basic = (code: string) => ({ authorization: `Basic ${Buffer.from(`${id}:${code}`).toString('base64')}` })
  const drive = (method: string, name: string, init: RequestInit = {}) =>
    fetch(`${url}/dav/@s/${id}/${name}`, { method, ...init })
  t.equal((await drive('PROPFIND', '', { headers: basic('other') })).status, 429)
  await admin.post(`/api/share/disable?id=${random.id}`, {})
  await admin.post(`/api/share/enable?id=${random.id}`, {})
  await admin.post(`/api/share/delete?id=${random.id}`, {})
  const added = JSON.parse(await run(running, 'share', 'add', '/shared', '--user', 'admin', '--json')) as Shown
  const edited = await run(running, 'share', 'edit', added.id, '--id', 'Offer-of-July', '--json')
  ids.push(added.id, 'Offer-of-July')
  await run(running, 'share', 'rm', 'Offer-of-July')

  const all = async () => (await gateway.store.audit.after(0, {}, 1000)).events
  const ofShares = (events: readonly NumberedEvent[]) => events.filter(({ kind }) => /^share\.(?!opened)/.test(kind))
  t.ok(await until(async () => ofShares(await all()).length >= 9))
  const events = await all()
  const after = (JSON.parse(edited) as Shown).pseudonym
  t.same(
    ofShares(events).map(({ kind, result, subject }) => `${kind} ${result} ${subject}`),
    [
      `share.made done ${chosen.pseudonym}`,
      `share.made done ${random.pseudonym}`,
      `share.made refused ${chosen.pseudonym}`,
      `share.changed done ${chosen.pseudonym} → ${renamed.pseudonym}`,
      `share.changed done ${random.pseudonym}`,
      `share.changed done ${random.pseudonym}`,
      `share.removed done ${random.pseudonym}`,
      `share.made done ${added.pseudonym}`,
      `share.changed done ${added.pseudonym} → ${after}`,
      `share.removed done ${after}`,
    ],
  )
  const byVisitors = events.filter(({ actor }) => actor.name === `share:${renamed.pseudonym}`)
  const kinds = [...new Set(byVisitors.map(({ kind, result }) => `${kind} ${result}`))].sort()
  t.same(kinds, ['file.stored done', 'read done', 'share.opened done', 'share.opened refused'])
  t.same(
    byVisitors.filter(({ actor }) => actor.userId !== undefined || actor.credential !== undefined),
    [],
  )
  const listed = (await admin.post('/api/share/list', {})) as { readonly content: readonly Shown[] }
  t.equal(listed.content.find((each) => each.pseudonym === renamed.pseudonym)?.id, id, 'an admin finds the share')

  t.ok(await until(() => receiver.received.some(({ event }) => JSON.stringify(event).includes(after))))
  t.ok(await until(async () => (await readFile(file, 'utf8')).includes(`share:${renamed.pseudonym}`)))
  const headers = { authorization: admin.authorization }
  const asked = async (path: string) => (await fetch(url + path, { headers })).text()
  const token = gateway.settings.get('token')
  const places = {
    audit: JSON.stringify(events),
    ndjson: await asked('/api/admin/audit?format=ndjson'),
    csv: await asked('/api/admin/audit?format=csv'),
    overview: await asked('/api/admin/overview'),
    history: JSON.stringify(await admin.post('/api/fs/history', { path: '/shared/a' })),
    command: await run(running, 'audit', '--user', `share:${renamed.pseudonym}`),
    webhooks: receiver.received.map(({ body }) => body).join('\n'),
    lines: await readFile(file, 'utf8'),
    log: lines.join('\n'),
    metrics: await (await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } })).text(),
  }
  t.match(places.log, /too many wrong codes for a share/)
  for (const name of ['audit', 'ndjson', 'csv', 'history', 'command', 'webhooks', 'lines', 'log'] as const) {
    t.match(places[name], renamed.pseudonym, name)
  }
  t.match(places.metrics, /^tidegate_/m)
  for (const [name, text] of Object.entries(places)) {
    for (const each of ids) t.notOk(text.includes(each), `${name}: ${each}`)
  }
})
