/** The API of the audit: filters, pages, live events, NDJSON and CSV. */
import t, { type Test } from 'tap'
import { csv } from '../../../../src/audit/forms.js'
import { asPath } from '../../../../src/base/path.js'
import type { AuditEvent } from '../../../../src/database/audit-rows.js'
import { anEvent } from '../../../audit/an-event.js'
import { serve, type Served } from '../served.js'

interface Page {
  readonly content: readonly { readonly id: string; readonly [field: string]: unknown }[]
  readonly next: string | null
  readonly last: number
}

const start = Date.UTC(2025, 10, 30)
const ann = { userId: 3, name: 'ann', protocol: 'webdav', address: '192.0.2.7' }
const ben = { userId: 4, name: 'ben', protocol: 'http', address: '2001:db8::1' }

const events: readonly AuditEvent[] = [
  anEvent({ time: start, actor: ann, path: asPath('/a/x'), size: 5 }),
  anEvent({ time: start + 1000, actor: ben, kind: 'moved', path: asPath('/a/x'), target: asPath('/b/x') }),
  anEvent({ time: start + 2000, actor: ann, kind: 'removed', path: asPath('/ab'), result: 'refused', error: 'denied' }),
  anEvent({ time: start + 3000, actor: ben, kind: 'signin.refused', result: 'refused', error: 'wrong_credentials' }),
  anEvent({ time: start + 4000, actor: { name: 'gateway' }, kind: 'task.ended', result: 'failed', error: 'timeout' }),
]

async function withEvents(t: Test): Promise<Served> {
  const admin = await serve(t)
  // Its own events are later.
  await admin.gateway.store.audit.insert(events)
  return admin
}

async function ask(admin: Served, query: Readonly<Record<string, string>> = {}): Promise<Page> {
  const { code, message, data } = await admin.get(
    `/api/admin/audit?${new URLSearchParams({ to: '2025-12-01T00:00:00Z', ...query }).toString()}`,
  )
  if (code !== 200) throw new Error(message)
  return data as Page
}

/** Which of the events the page has, by their place in `events`. */
const numbersOf = ({ content }: Page) => content.map(({ id }) => events.findIndex((event) => event.id === id))

void t.test('events are found by each filter, newest first', async (t) => {
  const admin = await withEvents(t)
  for (const [query, numbers] of [
    [{}, [4, 3, 2, 1, 0]],
    [{ user: 'ann' }, [2, 0]],
    [{ path: '/a' }, [1, 0]],
    [{ path: '/b/' }, [1]],
    [{ path: '/' }, [2, 1, 0]],
    [{ kind: 'moved' }, [1]],
    [{ kind: 'moved,removed' }, [2, 1]],
    [{ result: 'refused' }, [3, 2]],
    [{ address: '192.0.2.7' }, [2, 0]],
    [{ address: '2001:db8:*' }, [3, 1]],
    [{ from: new Date(start + 1000).toISOString(), to: new Date(start + 3000).toISOString() }, [2, 1]],
    [{ user: 'ann', kind: 'moved' }, []],
  ] as const) {
    t.strictSame(numbersOf(await ask(admin, query)), numbers, JSON.stringify(query))
  }
  t.match((await ask(admin, { kind: 'moved' })).content[0], {
    ...{ time: '2025-11-30T00:00:01.000Z', kind: 'moved', result: 'done', user_id: 4, user: 'ben', protocol: 'http' },
    ...{ address: '2001:db8::1', path: '/a/x', target: '/b/x', size: null },
  })
})

void t.test('pages follow one another, and what is stored later is told to who follows', async (t) => {
  const admin = await withEvents(t)
  const [first, found] = [await ask(admin, { limit: '2' }), [] as number[]]
  for (let page: Page | undefined = first; page;) {
    found.push(...numbersOf(page))
    page = page.next === null ? undefined : await ask(admin, { limit: '2', cursor: page.next })
  }
  t.strictSame(found, [4, 3, 2, 1, 0])

  t.strictSame((await ask(admin, { after: String(first.last) })).content, [])
  const late = [anEvent({ time: start - 5000, actor: ann }), anEvent({ time: start - 6000, actor: ann })]
  await admin.gateway.store.audit.insert(late)
  const told = await ask(admin, { after: String(first.last), user: 'ann', limit: '1' })
  t.strictSame(
    told.content.map(({ id }) => id),
    [late[0]?.id],
    'in the order in which they were stored',
  )
  const rest = await ask(admin, { after: String(told.last), user: 'ann' })
  t.strictSame(
    rest.content.map(({ id }) => id),
    [late[1]?.id],
  )
  t.strictSame((await ask(admin, { after: String(rest.last) })).content, [])
})

void t.test('what is stored while a page is read is told once to who follows', async (t) => {
  const admin = await withEvents(t)
  const { audit } = admin.gateway.records
  const list = audit.list.bind(audit)
  const late = anEvent({ time: start, actor: ann })
  // It is stored after the number that the response tells was read, and before the events are.
  audit.list = async (...asked) => {
    await admin.gateway.store.audit.insert([late])
    return list(...asked)
  }
  const first = await ask(admin)
  t.same(numbersOf(first), [4, 3, 2, 1, 0])
  const told = await ask(admin, { after: String(first.last) })
  t.same(
    told.content.map(({ id }) => id),
    [late.id],
  )
  t.same((await ask(admin, { after: String(told.last) })).content, [])
})

void t.test('what is no filter is refused before the database is asked', async (t) => {
  const admin = await serve(t)
  const { audit } = admin.gateway.records
  let asked = 0
  for (const name of ['list', 'after', 'last'] as const) {
    Object.assign(audit, { [name]: () => Promise.reject(new Error(`asked ${++asked} times`)) })
  }
  for (const query of [
    ...['from=yesterday', 'to=1', 'kind=x', 'kind=moved,x', 'result=x', 'limit=0', 'limit=1001', 'limit=x', 'after=x'],
    ...['cursor=x', 'cursor=1', "cursor=1.'", 'path=%00', `user=${'a'.repeat(256)}`, `address=${'1'.repeat(256)}`],
  ]) {
    t.match(await admin.get(`/api/admin/audit?${query}`), { code: 400, data: null }, query.slice(0, 50))
  }
  t.equal(asked, 0)
})

void t.test('NDJSON and CSV have all events that match', async (t) => {
  const admin = await withEvents(t)
  const fetchAs = (accept: string, query = 'to=2025-12-01T00:00:00Z') =>
    fetch(`${admin.url}/api/admin/audit?${query}`, { headers: { authorization: admin.token, accept } })
  const lines = await fetchAs('application/x-ndjson')
  t.match(Object.fromEntries(lines.headers), {
    'content-type': 'application/x-ndjson; charset=utf-8',
    'content-disposition': 'attachment; filename="audit.ndjson"',
    'cache-control': 'no-store',
  })
  const objects = (await lines.text()).split('\n').filter((line) => line !== '')
  t.strictSame(
    objects.map((line) => JSON.parse(line) as unknown),
    (await ask(admin)).content,
  )
  const table = await fetchAs('text/csv')
  t.equal(table.headers.get('content-type'), 'text/csv; charset=utf-8')
  t.equal(await table.text(), csv.head + [...events].reverse().map(csv.of).join(''))
  t.equal(await (await fetchAs('text/csv', 'user=nobody')).text(), csv.head, 'also where nothing matches')
  t.match(await (await fetchAs('text/csv', 'limit=x')).json(), { code: 400 })
  t.match(await (await fetchAs('text/csv;q=0, */*')).json(), { code: 200 })
  const none = await fetch(`${admin.url}/api/admin/audit`, { headers: { accept: 'text/csv' } })
  t.match(await none.json(), { code: 401 })
})

void t.test('a stream that fails ends before its end', async (t) => {
  const admin = await serve(t)
  const { audit } = admin.gateway.records
  let pages = 0
  const next = { time: 1, id: '019ad000-0000-7000-8000-000000000000' }
  Object.assign(audit, {
    list: async () => {
      if (++pages > 3) throw new Error('the database is gone')
      return { events: [anEvent()], next }
    },
  })
  const headers = { authorization: admin.token, accept: 'text/csv' }
  await t.rejects(fetch(`${admin.url}/api/admin/audit`, { headers }).then((response) => response.text()))
  t.equal(pages, 4)
})

void t.test('a stream of very many events takes little memory', async (t) => {
  const admin = await serve(t)
  const count = Number(process.env.TIDEGATE_AUDIT_EVENTS ?? 300_000)
  const { audit } = admin.gateway.records
  const next = { time: 1, id: '019ad000-0000-7000-8000-000000000000' }
  let left = count
  Object.assign(audit, {
    list: async (_filter: unknown, limit: number) => {
      left -= limit
      return { events: Array.from({ length: limit }, () => anEvent()), next: left > 0 ? next : undefined }
    },
  })
  const response = await fetch(`${admin.url}/api/admin/audit`, {
    headers: { authorization: admin.token, accept: 'application/x-ndjson' },
  })
  let [lines, mostWaiting] = [0, 0]
  const decoder = new TextDecoder()
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    lines += decoder.decode(chunk, { stream: true }).split('\n').length - 1
    mostWaiting = Math.max(mostWaiting, count - left - lines)
  }
  t.equal(lines, count)
  // Pages in the buffers of the connection and of the client.
  t.ok(mostWaiting < 50_000, `${mostWaiting} events were made and not yet received`)
})
