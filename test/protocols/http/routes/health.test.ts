/** /livez and /readyz, which load balancers and supervisors ask. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { memoryType } from '../../../../drivers/memory/index.js'
import type { AnyDriverType } from '../../../../src/contract/driver-type.js'
import { GatewayError } from '../../../../src/base/errors.js'
import { asPath } from '../../../../src/base/path.js'
import { newStorage } from '../../../../src/database/new-storage.js'
import { startGateway } from '../../../gateway.js'

const statusOf = async (url: string, path: string) => {
  const response = await fetch(url + path)
  return [response.status, await response.text()]
}

/** A driver that opens or fails when `end` is called. */
function slow(fails: boolean) {
  let end: () => void = () => undefined
  const ended = new Promise<void>((resolve) => (end = resolve))
  const type: AnyDriverType = {
    name: 'Slow',
    fields: {},
    async open() {
      await ended
      if (fails) throw new GatewayError('unavailable', { reason: 'out of order' })
      return memoryType.open({ size_limit: 0, case_sensitive: true }, undefined as never)
    },
  }
  return { type, end }
}

void t.test('a daemon is live and ready, for anybody and without detail', async (t) => {
  const { url } = await startGateway(t)
  for (const path of ['/livez', '/readyz']) {
    t.strictSame(await statusOf(url, path), [200, 'ok\n'])
    t.equal((await fetch(url + path)).headers.get('cache-control'), 'no-store')
  }
})

for (const fails of [false, true]) {
  void t.test(`a daemon is ready once its storages have ${fails ? 'failed' : 'started'}`, async (t) => {
    const { type, end } = slow(fails)
    const first = await startGateway(t, { driver: { name: 'Memory' }, driverTypes: [type] })
    const row = newStorage({ mountPath: asPath('/slow'), driver: 'Slow', addition: '{}' })
    await first.gateway.store.storages.insert(row)
    await first.stop()
    const { url } = await startGateway(t, { dataFolder: first.dataFolder, driverTypes: [type] })
    t.strictSame(await statusOf(url, '/readyz'), [503, 'not ready\n'])
    t.strictSame(await statusOf(url, '/livez'), [200, 'ok\n'])
    end()
    while ((await statusOf(url, '/readyz'))[0] !== 200) await wait(10)
  })
}

void t.test('a daemon that is stopping, or whose database does not respond, is live and not ready', async (t) => {
  const { gateway, url } = await startGateway(t)
  gateway.isDraining = true
  t.equal((await statusOf(url, '/readyz'))[0], 503)
  gateway.isDraining = false
  t.equal((await statusOf(url, '/readyz'))[0], 200)
  gateway.store.ping = () => Promise.reject(new GatewayError('unavailable'))
  t.equal((await statusOf(url, '/readyz'))[0], 503)
  gateway.store.ping = () => new Promise<never>(() => undefined)
  t.equal((await statusOf(url, '/readyz'))[0], 503)
  t.equal((await statusOf(url, '/livez'))[0], 200)
})
