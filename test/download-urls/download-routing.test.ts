/** The delivery of a file by request, storage options and file type, and the requests to the backend for it. */
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import { asPath as p } from '../../src/base/path.js'
import type { StorageRow } from '../../src/database/tables/storages.js'
import {
  judgeDownload,
  type DownloadRequestKind,
  type DownloadVerdict,
} from '../../src/download-urls/download-routing.js'
import { flaky } from '../drivers/flaky.js'
import { altered, newTree, sourceOf, type MountAsk } from '../tree/tree-fixture.js'

type Policy = StorageRow['webdavPolicy']
type Marks = 'direct' | 'webProxy' | 'ownProxy' | 'proxy_types' | 'text_types'

/** The specification: the kind of request, WebDAV's policy, the conditions that hold, and the verdict. */
const rows: readonly (readonly [
  route: DownloadRequestKind,
  policy: Policy,
  holds: readonly Marks[],
  verdict: DownloadVerdict,
])[] = [
  // Signed URLs at /d: the direct URL, unless something requires the gateway.
  ['download', '302_redirect', [], 'stream'],
  ['download', '302_redirect', ['ownProxy'], 'own proxy'],
  ['download', '302_redirect', ['direct'], 'direct'],
  ['download', '302_redirect', ['direct', 'ownProxy'], 'direct'],
  ['download', '302_redirect', ['direct', 'text_types'], 'direct'],
  ['download', 'use_proxy_url', ['direct'], 'direct'],
  ['download', 'native_proxy', ['direct'], 'direct'],
  ['download', '302_redirect', ['direct', 'webProxy'], 'stream'],
  ['download', '302_redirect', ['direct', 'webProxy', 'ownProxy'], 'own proxy'],
  ['download', '302_redirect', ['direct', 'proxy_types'], 'stream'],
  ['download', '302_redirect', ['direct', 'proxy_types', 'ownProxy'], 'own proxy'],
  // Signed URLs at /p: only files that must be sent through the gateway.
  ['proxied download', '302_redirect', [], 'stream'],
  ['proxied download', '302_redirect', ['ownProxy'], 'own proxy'],
  ['proxied download', '302_redirect', ['direct'], 'refused'],
  ['proxied download', 'native_proxy', ['direct'], 'refused'],
  ['proxied download', '302_redirect', ['direct', 'ownProxy'], 'refused'],
  ['proxied download', 'use_proxy_url', ['direct'], 'stream'],
  ['proxied download', 'use_proxy_url', ['direct', 'ownProxy'], 'own proxy'],
  ['proxied download', '302_redirect', ['direct', 'webProxy'], 'stream'],
  ['proxied download', '302_redirect', ['direct', 'proxy_types'], 'stream'],
  ['proxied download', '302_redirect', ['direct', 'text_types'], 'stream'],
  ['proxied download', '302_redirect', ['direct', 'text_types', 'ownProxy'], 'own proxy'],
  // Files that the console shows at /p: always through the gateway.
  ['preview', '302_redirect', ['direct'], 'stream'],
  ['preview', 'use_proxy_url', ['direct', 'webProxy', 'ownProxy', 'proxy_types', 'text_types'], 'stream'],
  // raw_url of the API: extensions make no difference.
  ['file details', '302_redirect', [], 'stream'],
  ['file details', '302_redirect', ['ownProxy'], 'own proxy'],
  ['file details', '302_redirect', ['direct'], 'direct'],
  ['file details', 'use_proxy_url', ['direct', 'ownProxy'], 'direct'],
  ['file details', '302_redirect', ['direct', 'proxy_types', 'text_types'], 'direct'],
  ['file details', '302_redirect', ['direct', 'webProxy'], 'stream'],
  ['file details', '302_redirect', ['direct', 'webProxy', 'ownProxy'], 'own proxy'],
  // WebDAV has its own policy.
  ['file server', '302_redirect', [], 'stream'],
  ['file server', '302_redirect', ['ownProxy'], 'stream'],
  ['file server', '302_redirect', ['direct', 'webProxy', 'ownProxy', 'proxy_types'], 'direct'],
  ['file server', 'use_proxy_url', ['direct'], 'stream'],
  ['file server', 'use_proxy_url', ['direct', 'ownProxy'], 'own proxy'],
  ['file server', 'use_proxy_url', ['ownProxy'], 'own proxy'],
  ['file server', 'native_proxy', ['direct', 'ownProxy'], 'stream'],
]

void t.test('judgeDownload() returns the verdict of each row of the table', async (t) => {
  for (const [route, webdavPolicy, holds, verdict] of rows) {
    const has = (mark: Marks) => holds.includes(mark)
    const facts = {
      route,
      webdavPolicy,
      direct: has('direct'),
      webProxy: has('webProxy'),
      ownProxy: has('ownProxy'),
      isListed: has,
    }
    t.equal(judgeDownload(facts), verdict, `${route} ${webdavPolicy} ${holds.join(' ')}`)
  }
})

const file = p('/file')

/** Storages that do not answer a request which the route depends on. */
const stuck: readonly {
  readonly method: 'directUrl' | 'stat'
  readonly route: DownloadRequestKind
  readonly mount: MountAsk
}[] = [
  { method: 'directUrl', route: 'download', mount: {} },
  { method: 'stat', route: 'file server', mount: { downProxyUrl: 'https://x.example', webdavPolicy: 'use_proxy_url' } },
]

for (const { method, route, mount } of stuck) {
  void t.test(`a client that disconnects ends the wait for ${method}()`, async (t) => {
    const direct = altered(new MemoryDriver(0), { directUrl: async () => ({ url: 'https://x.example' }) })
    await direct.write?.(file, sourceOf('abc'))
    let isStuck = false
    const struck = flaky(direct, [{ method, fault: { kind: 'stall' } }])
    const driver = new Proxy(direct, {
      get: (_target, name) => Reflect.get(isStuck && name === method ? struck.driver : direct, name) as unknown,
    })
    const { mounts, dependencies } = await newTree(t, {
      '/': { ...mount, driverOf: async () => driver, cacheExpiration: 0 },
    })
    t.teardown(() => struck.release())
    const { storage, inner } = mounts.find(file)
    isStuck = true
    const client = new AbortController()
    const routed = Promise.resolve(dependencies.downloadRouting.route(storage, inner, { route, signal: client.signal }))
    const outcome = routed.catch((error: unknown) => error)
    while (struck.calls(method) === 0) await turn()
    client.abort()
    const late = new Promise((resolve) => setTimeout(resolve, 1000, 'it waits'))
    t.match(await Promise.race([outcome, late]), { code: 'aborted' })
  })
}
