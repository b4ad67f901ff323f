/** The requests to the backend that the route of a download needs. */
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import { asPath as p } from '../../src/contract/path.js'
import type { DownloadRequestKind } from '../../src/urls/download-routing.js'
import { flaky } from '../drivers/flaky.js'
import { altered, newTree, sourceOf, type MountAsk } from '../tree/tree-fixture.js'

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
