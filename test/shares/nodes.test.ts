/** Shares in one process, in two workers and on three nodes: one count of visits and of uploads, and one state. */
import { Agent, request } from 'node:http'
import t, { type Test } from 'tap'
import { thisServer } from '../database/engines.js'
import { startDaemon, startNodes } from '../gateway.js'
import { lacks } from '../programs.js'
import { until } from '../until.js'
import { ended, Visitor, type Answer } from './visitor.js'

interface Running {
  readonly url: string
  readonly adminPassword: string
}

interface Told {
  readonly code: number
  readonly data: { readonly token: string; readonly id: string; readonly accessed: number }
}

async function post(node: Running, path: string, body: object, authorization = ''): Promise<Told> {
  const headers = { 'content-type': 'application/json', authorization }
  const response = await fetch(node.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  return (await response.json()) as Told
}

async function tokenOf(node: Running): Promise<string> {
  return (await post(node, '/api/auth/login', { username: 'admin', password: node.adminPassword })).data.token
}

/** Shares a new folder. */
async function share(node: Running, token: string, path: string, fields: object): Promise<string> {
  await post(node, '/api/fs/mkdir', { path }, token)
  return (await post(node, '/api/share/create', { files: [path], ...fields }, token)).data.id
}

/** A cookie as the gateway makes them. */
function cookieOf(number: number): string {
  const digits = Array.from(number.toString(8), (digit) => Number(digit) + 2).join('')
  return `tidegate_visit=${digits.padStart(32, 'a')}`
}

interface Listed {
  readonly code: number
  readonly error?: string
}

/** Asks again while the database has no free connection, as a client does that is told when to. */
async function listed(ask: () => Promise<Answer>): Promise<Listed> {
  let answer: Listed | undefined
  await until(async () => {
    answer = JSON.parse((await ask()).text) as Listed
    return answer.error !== 'busy'
  })
  if (answer === undefined) throw new Error('no answer')
  return answer
}

/** Exactly 100 of 200 visitors at once, whom only their cookies tell apart, are let in, and stay in on each node. */
async function countVisitors(t: Test, nodes: readonly Running[], id: string): Promise<void> {
  const visitors = Array.from({ length: 200 }, (_, number) => {
    const headers = { cookie: cookieOf(number), 'content-type': 'application/json' }
    const init = { method: 'POST', headers, body: JSON.stringify({ path: `/@s/${id}` }) }
    return async (turn: number) => {
      const { url } = nodes[(number + turn) % nodes.length] ?? { url: '' }
      return listed(() => new Visitor({ url }).ask('/api/fs/list', init))
    }
  })
  const first = await Promise.all(visitors.map((visit) => visit(0)))
  t.equal(first.filter(({ code }) => code === 200).length, 100)
  const again = await Promise.all(visitors.map((visit) => visit(1)))
  t.same(again, first, 'who is in stays in, and nobody else comes in')
}

const skip = lacks('postgres', 'initdb')

void t.test('on three nodes visits and uploads are counted exactly, and a change ends visits', { skip }, async (t) => {
  const nodes = await startNodes(t, await (await thisServer()).createDatabase(), 3)
  const [one, two] = nodes
  if (!one || !two) throw new Error('no gateway')
  const token = await tokenOf(one)
  const limits = { mode: 'upload', upload_max_bytes: 55, upload_max_files: 7 }
  const id = await share(one, token, '/docs', { max_accessed: 100 })
  const drop = await share(one, token, '/drop', limits)
  const isKnown = (share: string) => nodes.every(({ gateway }) => gateway.shares.get(share) !== undefined)
  t.ok(await until(() => isKnown(id) && isKnown(drop)), 'all nodes know the shares')
  await countVisitors(t, nodes, id)

  const uploads = Array.from({ length: 12 }, (_, number) =>
    new Visitor(nodes[number % 3] ?? one, { agent: `browser ${number}` }).put(`/@s/${drop}/x`, 'ten bytes.'),
  )
  const answers = await Promise.all(uploads)
  const names = answers.flatMap(({ data }) => data?.name ?? [])
  t.equal(names.length, 5)
  t.equal(new Set(names).size, 5, 'each by a name of its own')
  t.equal(answers.filter(({ code }) => code === 507).length, 7)

  t.match(await post(one, `/api/share/disable?id=${id}`, {}, token), { code: 200 })
  t.ok(await until(() => two.gateway.shares.get(id)?.disabled === true), 'the other node knows that too')
  t.match(await new Visitor(two, {}).list(`/@s/${id}`), ended)
})

void t.test('in one process and in two workers visits are counted exactly, and a kill uses nothing up', async (t) => {
  const one = await startDaemon(t)
  const { dataFolder } = one
  const token = await tokenOf(one)
  await countVisitors(t, [one], await share(one, token, '/docs', { max_accessed: 100 }))
  const forWorkers = await share(one, token, '/more', { max_accessed: 100 })
  const drop = await share(one, token, '/drop', { mode: 'upload', upload_max_bytes: 100, upload_max_files: 1 })
  const sent = request(`${one.url}/sd/${drop}/slow.bin`, { method: 'PUT', agent: new Agent() })
  const cut = new Promise<Error>((resolve) => sent.on('error', resolve))
  // A probe must not reserve the only file before it.
  const begun = new Promise((resolve) => sent.on('continue', resolve))
  sent.setHeader('expect', '100-continue')
  sent.flushHeaders()
  await begun
  sent.write('some')
  // It stores nothing: without the running upload, it would be refused because of its digest.
  const probe = () => new Visitor(one).put(`/@s/${drop}/x`, 'x', { 'x-file-md5': '0'.repeat(32) })
  t.match(await probe(), { code: 507 }, 'the running upload has reserved the only file')
  await one.kill()
  await cut

  const again = await startDaemon(t, { dataFolder, environment: { TIDEGATE_WORKERS: '2' } })
  t.match(await new Visitor(again).put(`/@s/${drop}/slow.bin`, 'x'.repeat(100)), { data: { name: 'slow.bin' } })
  t.match(await new Visitor(again).put(`/@s/${drop}/x`, 'x'), { code: 507 })
  await countVisitors(t, [again], forWorkers)
})
