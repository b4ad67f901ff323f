/** Servers on loopback in the place of the hosts of a vendor, for this process and for daemons that it starts. */
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import type { RequestListener } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { makeCertificate } from './certificates.js'
import { divertNames } from './vendor-names.js'

/**
 * Serves these hosts over TLS until the test ends. Keys: host names; one that begins with `*.` stands for all names
 * with one more label. Resolves to the environment variables by which a started daemon reaches them too.
 */
export async function serveVendorHosts(
  t: Test,
  hosts: Readonly<Record<string, RequestListener>>,
): Promise<Readonly<Record<string, string>>> {
  const folder = await mkdtemp(join(tmpdir(), 'vendor-hosts-'))
  const names = Object.keys(hosts)
  const { certificate, key } = await makeCertificate(folder, names)
  const listener: RequestListener = (request, response) => {
    const host = (request.headers.host ?? '').replace(/:\d+$/, '')
    const answer = hosts[host] ?? hosts[host.replace(/^[^.]+/, '*')]
    if (answer) answer(request, response)
    else response.writeHead(421).end()
  }
  const server = createServer({ cert: await readFile(certificate), key: await readFile(key) }, listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const vendor = { names, port: (server.address() as AddressInfo).port, authority: certificate }
  const restore = divertNames(vendor)
  t.teardown(async () => {
    restore()
    server.closeAllConnections()
    server.close()
    await rm(folder, { recursive: true })
  })
  return {
    TIDEGATE_VENDOR_NAMES: JSON.stringify(vendor),
    NODE_OPTIONS: `--import ${new URL('vendor-names.js', import.meta.url).href}`,
  }
}
