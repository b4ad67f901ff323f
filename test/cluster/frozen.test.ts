/**
 * A daemon that is frozen for 30 seconds, while another one ends it, and then continues: it begins no change, and what
 * it had begun creates nothing twice, loses no source of a move, and tears nothing.
 */
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { request, type ClientRequest } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { openStore } from '../../src/database/store.js'
import { prepareNodes, startDaemon, type Daemon } from '../gateway.js'
import { lacks } from '../programs.js'
import { basic } from '../protocols/webdav/dav-client.js'
import { thisServer } from '../database/engines.js'

const adminPassword = 'a password for tests'
const moves = 40
const lateRequests = 10
const half = 500_000
/** Milliseconds for which a node is frozen. */
const frozenFor = 30_000

type Headers = Readonly<Record<string, string>>

/**
 * A request on a connection of its own. `status`: of the response; undefined if the connection was closed without one.
 */
function begin({ davUrl }: Daemon, method: string, name: string, headers: Headers = {}) {
  const authorization = basic('admin', adminPassword)
  const sent: ClientRequest = request(davUrl + name, { method, agent: false, headers: { authorization, ...headers } })
  const status = new Promise<number | undefined>((resolve) => {
    sent.on('response', (response) => {
      response.resume()
      resolve(response.statusCode)
    })
    sent.on('error', () => resolve(undefined))
  })
  return { sent, status }
}

function ask(node: Daemon, method: string, name: string, headers?: Headers, body?: string) {
  const { sent, status } = begin(node, method, name, headers)
  sent.end(body)
  return status
}

void t.test('a frozen daemon', { skip: lacks('postgres', 'initdb'), timeout: 180_000 }, async (t) => {
  const store = await (await thisServer()).createDatabase()
  const files = await mkdtemp(join(tmpdir(), 'tidegate-frozen-'))
  t.teardown(() => rm(files, { recursive: true, force: true, maxRetries: 3 }))
  const folders = await prepareNodes(t, store, 2, files, adminPassword)
  const start = (dataFolder: string | undefined) =>
    startDaemon(t, { dataFolder: dataFolder ?? '', adminPassword, environment: { TIDEGATE_STORE: store } })
  const [one, two] = [await start(folders[0]), await start(folders[1])]
  const content = (name: string) => readFile(join(files, name), 'utf8').catch(() => undefined)
  for (let index = 0; index < moves; index++) await writeFile(join(files, `source-${index}`), `source ${index}`)
  await writeFile(join(files, 'replaced'), 'old')

  const part = randomBytes(half)
  const length = { 'content-length': String(2 * half) }
  const creating = begin(one, 'PUT', 'new', { ...length, 'if-none-match': '*' })
  const replacing = begin(one, 'PUT', 'replaced', length)
  for (const { sent } of [creating, replacing]) sent.write(part)
  await wait(300)
  const moving = Array.from({ length: moves }, (_, index) =>
    ask(one, 'MOVE', `source-${index}`, { destination: `${one.davUrl}target-${index}`, overwrite: 'F' }),
  )
  // Some have ended, and others have begun.
  let ended = 0
  for (const answer of moving) void answer.then(() => ended++)
  while (ended < moves / 4) await wait(1)
  process.kill(one.pid, 'SIGSTOP')
  const thawed = wait(frozenFor)
  const lateAnswers = Array.from({ length: lateRequests }, (_, index) => ask(one, 'PUT', `late-${index}`, {}, 'late'))
  t.equal(await ask(two, 'PUT', 'new', { 'if-none-match': '*' }, 'by the other node'), 201)

  // The path locks of the frozen daemon end with it.
  const created: number[] = []
  for (let index = 0; index < moves; index++) {
    let status: number | undefined = 423
    const headers = { 'if-none-match': '*' }
    while (status === 423 || status === 503) status = await ask(two, 'PUT', `target-${index}`, headers, 'by the other')
    if (status === 201) created.push(index)
    else t.equal(status, 412, `target-${index}`)
  }
  await thawed
  process.kill(one.pid, 'SIGCONT')
  for (const { sent } of [creating, replacing]) sent.end(part)

  t.match(
    String(await creating.status),
    /^(412|503|undefined)$/,
    'a file that was created meanwhile is not created again',
  )
  t.equal(await content('new'), 'by the other node')
  t.match(String(await replacing.status), /^(503|undefined)$/)
  t.equal(await content('replaced'), 'old')
  for (const status of await Promise.all(lateAnswers))
    t.match(String(status), /^(503|undefined)$/, 'no change was begun')
  for (let index = 0; index < lateRequests; index++) t.equal(await content(`late-${index}`), undefined)
  const answers = await Promise.all(moving)
  const late: number[] = []
  for (const [index, status] of answers.entries()) {
    const [source, target] = [await content(`source-${index}`), await content(`target-${index}`)]
    // Nothing recalls a rename that the kernel had been asked for. It takes microseconds.
    const isLate = created.includes(index) && status === 201
    if (isLate) late.push(index)
    if (created.includes(index) && !isLate) {
      t.same([source, target], [`source ${index}`, 'by the other'], `move ${index}`)
    } else t.same([source, target], [undefined, `source ${index}`], `move ${index}`)
  }
  t.ok(late.length <= 1, `late: ${late.join()}`)
  t.comment(`${created.length} of ${moves} moves had not taken effect`)

  // It restarts in place as a new node.
  let status: number | undefined
  while (status !== 201) {
    status = await ask(one, 'PUT', 'afterwards', {}, 'x')
    await wait(100)
  }
  const opened = await openStore(store)
  t.teardown(() => opened.close())
  const ofOne = (await opened.nodes.all()).filter(({ name }) => name.endsWith(`:${one.pid}`))
  t.same(
    ofOne.map(({ ended }) => ended !== undefined),
    [true, false],
  )
  const left = (await readdir(files)).filter((name) => name.startsWith('.tidegate') && name !== '.tidegate-marker')
  t.same(
    left.filter((name) => !name.startsWith('.tidegate-staging')),
    [],
  )
})
