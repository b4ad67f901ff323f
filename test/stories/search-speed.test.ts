/** The speed of search while the index is updated and users sign in, over trees of different sizes. */
import { BlockList } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { httpHandler } from '../../protocols/http/server.js'
import type { Driver } from '../../src/contract/driver.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath, segmentsOf } from '../../src/base/path.js'
import { configSchema } from '../../src/installation/config.js'
import { Gateway } from '../../src/gateway/gateway.js'
import { createLog } from '../../src/process/log.js'
import { listen } from '../protocols/http/listen.js'
import { protocols } from '../../protocols/index.js'

const names = Number(process.env.TIDEGATE_SEARCH_NAMES ?? 20_000)
const inFolder = 100

/**
 * A word of names. Some hundreds of a million names contain each of the first half of the words, and one contains each
 * of the other half.
 */
const word = (number: number): string => `${((number * 7919) % 4000).toString(26).padStart(3, 'q')}zap`

/** Generated folders of a hundred files each, which are not stored. */
const generated: Driver = {
  stat: async (path) => {
    if (segmentsOf(path).length > 2) throw new GatewayError('not_found')
    return folder(path.slice(path.lastIndexOf('/') + 1))
  },
  pages: async function* (path) {
    const [shelf, box] = segmentsOf(path).map((name) => Number(/\d+/.exec(name)?.[0]))
    if (shelf === undefined) {
      yield Array.from({ length: Math.ceil(names / inFolder / 100) }, (_, at) => folder(`shelf ${at}`))
    } else if (box === undefined) {
      const boxes = Math.min(100, Math.ceil(names / inFolder) - shelf * 100)
      yield Array.from({ length: boxes }, (_, at) => folder(`box ${shelf * 100 + at}`))
    } else {
      yield Array.from({ length: inFolder }, (_, at) => file(box * inFolder + at))
    }
  },
  read: () => Promise.reject(new GatewayError('unsupported')),
}

function folder(name: string): Entry {
  return { name, kind: 'folder', size: 0, modified: new Date(0) }
}

function file(at: number): Entry {
  return { name: `${word(at)} ${word(at * 31 + 17)} ${at}.txt`, kind: 'file', size: at, modified: new Date(0) }
}

const type: AnyDriverType = {
  name: 'Local',
  fields: { root_folder_path: { type: 'string', default: '' } },
  open: async () => generated,
}

const password = 'a password'

void t.test(`a search over ${names} names does not delay other requests`, async (t) => {
  const config = { ...configSchema(protocols).parse({}), data: join(t.testdir(), 'data') }
  const gateway = await Gateway.open({
    config,
    log: createLog('silent'),
    drivers: [type],
    protocols,
    admin: { password },
  })
  t.teardown(() => gateway.close())
  const url = await listen(t, httpHandler(gateway, { trustedProxies: new BlockList(), siteUrl: '' }))
  const post = async (path: string, body: unknown, token = '') => {
    const headers = { 'content-type': 'application/json', authorization: token }
    const response = await fetch(url + path, { method: 'POST', body: JSON.stringify(body), headers })
    const { code, message, data } = (await response.json()) as { code: number; message: string; data: unknown }
    if (code !== 200) throw new Error(message)
    return data
  }
  const signIn = async () => (await post('/api/auth/login', { username: 'admin', password })) as { token: string }
  const { token } = await signIn()

  await gateway.settings.set(new Map([['search_index', 'database']]))
  const before = process.memoryUsage().rss
  const begin = performance.now()
  await gateway.search.build()
  await gateway.search.idle()
  t.comment(`built in ${((performance.now() - begin) / 1000).toFixed(1)} s`)
  const { objCount, error } = gateway.search.progress()
  t.match({ objCount, error }, { objCount: names + Math.ceil(names / inFolder) + Math.ceil(names / 10_000), error: '' })
  const grown = (process.memoryUsage().rss - before) / 2 ** 20
  t.ok(grown < 150, `memory grew by ${grown.toFixed(0)} MiB`)

  const done = new AbortController()
  const goesOn = () => !done.signal.aborted
  let updates = 0
  let signIns = 0
  const updating = async () => {
    while (goesOn()) {
      await gateway.search.update([asPath('/')], Number.POSITIVE_INFINITY)
      updates++
      while (goesOn() && !gateway.search.progress().isDone) await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  const signingIn = async () => {
    while (goesOn()) {
      await signIn()
      signIns++
    }
  }
  const others = Promise.all([updating(), signingIn(), signingIn()])
  others.catch(() => undefined)
  const taken: number[] = []
  let most = 0
  for (let round = 0; round < 100; round++) {
    const first = word(round * 101)
    const keywords = [first, first.slice(0, 4), `${first} ${round}`, String(10_000 + round)][round % 4]
    const asked = performance.now()
    const fields = { parent: '/', keywords, scope: 0, page: 1, per_page: 100, password: '' }
    const { total } = (await post('/api/fs/search', fields, token)) as { total: number }
    taken.push(performance.now() - asked)
    most = Math.max(most, total)
  }
  done.abort()
  await others
  await gateway.search.stop().catch(() => undefined)
  taken.sort((one, other) => one - other)
  const median = taken[taken.length >> 1] ?? NaN
  t.comment(`median ${median.toFixed(1)} ms, slowest ${taken.at(-1)?.toFixed(1)} ms, ${signIns} sign-ins`)
  t.ok(updates > 0 && signIns > 0 && most > 0 && most <= 1000, `${updates} updates, ${signIns} sign-ins, ${most} hits`)
  // This limit detects defects, also on a busy machine. The target of 50 ms is in the bench.
  t.ok(median < 500, `${median.toFixed(1)} ms`)
})
