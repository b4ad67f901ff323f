/** `tidegate check --live`, which containers ask whether the daemon is healthy. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { liveness } from '../../src/cli/check.js'
import { storeDaemonUrl } from '../../src/installation/data-folder.js'
import { startGateway, withoutNodes } from '../gateway.js'
import { lacks } from '../programs.js'
import { makeCertificate } from '../servers/certificates.js'
import { main } from './outcome.js'

async function checkLive(...words: readonly string[]) {
  const child = spawn(process.execPath, [main, 'check', '--live', ...words], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(child, 'close') as Promise<[number | null]>
  const out = await text(child.stdout)
  return { out, status: (await ended)[0] }
}

void t.test(
  'check --live is true while the daemon is ready, also with an HTTPS address alone, and of no other server',
  { skip: withoutNodes || lacks('openssl') },
  async (t) => {
    const { certificate, key } = await makeCertificate(t.testdir())
    const config = { http: 'off', https: '127.0.0.1:0', tls_certificate: certificate, tls_key: key }
    const running = await startGateway(t, { config })
    const { dataFolder, gateway } = running
    const url = `https://${gateway.listening.addresses.https}`
    const ready = `process ${process.pid} at ${url} is ready`
    t.same(await checkLive('--data', dataFolder), { out: `ok  daemon  ${ready}\n`, status: 0 })
    const live = () => liveness({ ...gateway.config, data: dataFolder })
    t.same(await live(), { what: 'daemon', ok: true, detail: ready })

    await storeDaemonUrl(dataFolder, undefined)
    t.match(await live(), { ok: false, detail: /is not ready yet$/ })
    let [status, body] = [503, 'not ready\n']
    const other = createServer((_request, response) => response.writeHead(status).end(body)).listen(0, '127.0.0.1')
    await once(other, 'listening')
    t.teardown(() => other.close())
    await storeDaemonUrl(dataFolder, `http://127.0.0.1:${(other.address() as AddressInfo).port}`)
    t.match(await live(), { ok: false, detail: /is not ready: it answers 503$/ })
    ;[status, body] = [200, 'welcome\n']
    t.match(await live(), { ok: false, detail: /is not ready: it answers 200$/ })
    const mute = { ok: false, detail: /but does not answer at http:/ }
    other.removeAllListeners('request')
    t.match(await live(), mute, 'it accepts connections')
    other.close().closeAllConnections()
    t.match(await live(), mute)

    await running.stop()
    t.same(await checkLive('--data', dataFolder, '--json'), {
      out: `${JSON.stringify([{ what: 'daemon', ok: false, detail: `no daemon serves ${dataFolder}` }])}\n`,
      status: 1,
    })
  },
)
