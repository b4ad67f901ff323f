/** The protocol over a tree with faults, or with results that no driver of the tests returns. */
import { createServer } from 'node:http'
import { BlockList, type AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { webdavHandler } from '../../../protocols/webdav/server.js'
import type { Entry } from '../../../src/contract/entry.js'
import type { Gateway } from '../../../src/gateway/gateway.js'
import type { VirtualFs } from '../../../src/tree/virtual-fs.js'
import { principal } from '../../accounts/principals.js'

const folder: Entry = { name: '', kind: 'folder', size: 0, modified: new Date(0) }

/** A protocol over these methods of a tree. Resolves to its address and its log lines. */
async function serve(t: Test, tree: Partial<VirtualFs>): Promise<{ url: string; logged: object[] }> {
  const logged: object[] = []
  const gateway = {
    config: { cors_origins: [] },
    log: { error: (details: object) => logged.push(details) },
    accounts: {
      principals: { guest: () => principal({ username: 'guest' }) },
      tokens: { principalOf: () => Promise.reject(new TypeError('secret')) },
    },
    as: () => ({
      assertAllowed: () => Promise.resolve(),
      stat: () => Promise.resolve(folder),
      locks: () => Promise.resolve([]),
      properties: () => Promise.resolve([]),
      memberProperties: () => Promise.resolve(new Map()),
      downloadRoute: () => Promise.resolve({ kind: 'stream' }),
      ...tree,
    }),
  } as unknown as Gateway
  const server = createServer(webdavHandler(gateway, { trustedProxies: new BlockList(), siteUrl: '' }))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/dav/`, logged }
}

function page(count: number): readonly Entry[] {
  return Array.from({ length: count }, (_, index) => ({ ...folder, kind: 'file', name: `file ${index}` }))
}

void t.test('PROPFIND of infinite depth over a large tree fails with propfind-finite-depth', async (t) => {
  const { url } = await serve(t, {
    async *pages() {
      for (let at = 0; at < 11; at++) yield page(1000)
    },
  })
  const refused = await fetch(url, { method: 'PROPFIND' })
  t.equal(refused.status, 403)
  t.match(await refused.text(), /propfind-finite-depth/)
  const told = await fetch(url, { method: 'PROPFIND', headers: { depth: '1' } })
  t.equal(told.status, 207)
  t.equal((await told.text()).match(/<D:response>/g)?.length, 11_001)
})

void t.test('an unexpected error is answered with 500 without details, and logged once', async (t) => {
  const { url, logged } = await serve(t, { stat: () => Promise.reject(new TypeError('secret')) })
  const request = { method: 'PROPFIND', url: '/dav/a%20b' }
  const answer = await fetch(`${url}a%20b?sign=x`, { method: 'PROPFIND' })
  t.equal(answer.status, 500)
  t.notMatch(await answer.text(), /secret/)
  t.strictSame(logged, [{ user: 'guest', protocol: 'webdav', ...request, err: new TypeError('secret') }])
  await fetch(`${url}a%20b`, { method: 'PROPFIND', headers: { authorization: 'Bearer x' } })
  t.strictSame(logged[1], { protocol: 'webdav', ...request, err: new TypeError('secret') }, 'before the user is known')
})

void t.test('a listing that fails halfway breaks off the response', async (t) => {
  const { url, logged } = await serve(t, {
    async *pages() {
      yield page(1000)
      throw new TypeError('the disk is gone')
    },
  })
  await t.rejects(fetch(url, { method: 'PROPFIND', headers: { depth: '1' } }).then((answer) => answer.text()))
  t.equal(logged.length, 1)
})

void t.test('a listing for a slow client is not read ahead', async (t) => {
  let pages = 0
  const { url } = await serve(t, {
    async *pages() {
      for (; pages < 200; pages++) yield page(1000)
    },
  })
  const answer = await fetch(url, { method: 'PROPFIND', headers: { depth: '1' } })
  const reader = answer.body?.getReader()
  await reader?.read()
  await new Promise((resolve) => setTimeout(resolve, 300))
  t.ok(pages < 100, `${pages} pages were read`)
  await reader?.cancel()
})
