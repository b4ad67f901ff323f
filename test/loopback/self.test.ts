/** A gateway that is mounted in itself would pass requests on to itself for ever: it refuses them. */
import t from 'tap'
import { hasPassed, pseudonymOf } from '../../src/contract/own-requests.js'
import type { Log } from '../../src/base/log.js'
import { startGateway } from '../gateway.js'

void t.test('the pseudonym of a run is found in Via only as the name of a gateway', async (t) => {
  const own = pseudonymOf({ name: 'a' })
  t.match(own, /^Tidegate_[0-9a-f]{20}$/)
  t.not(own, pseudonymOf({ name: 'b' }))
  for (const via of [`1.1 ${own}`, `1.0 fred, 1.1 ${own} (comment), HTTP/2 p`, `1.1   ${own}`])
    t.ok(hasPassed(via, own))
  for (const via of [undefined, '', own, `1.1 x${own}`, `1.1 fred (${own})`]) t.notOk(hasPassed(via, own))
})

void t.test('a storage at the address of its own gateway does not start, and says why', async (t) => {
  const warnings: string[] = []
  const log: Log = {
    ...{ debug: () => undefined, info: () => undefined, error: () => undefined },
    warn: (_details, message) => void warnings.push(message),
    child: () => log,
  }
  const running = await startGateway(t, { log })
  const { gateway, url, davUrl, sftpPort, adminPassword: password } = running
  const [first] = gateway.storages.list()
  if (!first) throw new Error('nothing is mounted')
  const { id: _id, ...like } = first
  const who = { username: 'admin', password }
  const storages = [
    ['WebDav', { address: davUrl, ...who }, /reports a loop: it may be this gateway itself/],
    ['OpenList', { url, ...who }, /reports a loop: it may be this gateway itself/],
    ['SFTP', { address: `127.0.0.1:${sftpPort}`, root_folder_path: '/', ...who }, /the server closed the connection/],
  ] as const
  for (const [driver, options, reason] of storages) {
    const addition = JSON.stringify(options)
    const opened = gateway.storages.create({ ...like, mountPath: `/${driver}`, driver, addition })
    await opened.catch(() => undefined)
    const status = gateway.storages.list().find(({ mountPath }) => mountPath === `/${driver}`)?.status
    t.match(status, reason, driver)
  }
  t.ok(
    warnings.some((message) => message.includes('leads back to it')),
    'the log says it of SFTP',
  )
  const via = { via: '1.1 another, 1.1 Tidegate_00000000000000000000' }
  t.equal((await fetch(`${url}/ping`, { headers: via })).status, 200, 'other gateways are served')
})
