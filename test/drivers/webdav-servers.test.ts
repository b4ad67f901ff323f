/** Servers that are sloppy, lying or hostile, as the WebDAV driver sees them. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { webdavFields, webdavType, type WebdavOptions } from '../../drivers/webdav/index.js'
import type { DriverEnv, Source } from '../../src/driver.js'
import { checkOptions } from '../../src/fields.js'
import { at, listed, namesIn, put, refuses, source, textAt, type WritableDriver } from '../conformance/subject.js'
import { testEnv } from './env.js'

type Answer = (request: IncomingMessage, response: ServerResponse) => void

const folder = '<D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype></D:prop></D:propstat>'
const file = (size: number) =>
  `<D:propstat><D:prop><D:resourcetype/><D:getcontentlength>${size}</D:getcontentlength></D:prop>` +
  '<D:status>HTTP/1.1 200 OK</D:status></D:propstat>'
const response = (href: string, content: string) => `<D:response><D:href>${href}</D:href>${content}</D:response>`
const multistatus = (...responses: string[]) =>
  `<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">${responses.join('')}</D:multistatus>`

/** A server whose root is a folder; everything else is up to `answer`. */
async function serve(t: Test, answer: Answer): Promise<string> {
  const server = createServer((request, reply) => {
    request.resume()
    const isRoot = request.method === 'PROPFIND' && request.headers.depth === '0' && request.url === '/dav/'
    if (isRoot) reply.writeHead(207).end(multistatus(response('/dav/', folder)))
    else answer(request, reply)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/dav`
}

async function open(t: Test, address: string, more: Partial<WebdavOptions> = {}, env: Partial<DriverEnv> = {}) {
  const options = { address, username: 'somebody', password: 'a secret', root_folder_path: '/', ...more }
  const driver = (await webdavType.open(checkOptions(webdavFields, options), testEnv(env))) as WritableDriver
  t.teardown(() => driver.close?.())
  return driver
}

/** A server that lists this, whatever is asked for. */
async function listing(t: Test, xml: string | Buffer, env: Partial<DriverEnv> = {}): Promise<WritableDriver> {
  return open(t, await serve(t, (_request, reply) => reply.writeHead(207).end(xml)), {}, env)
}

await t.test('a listing is understood in every form that servers write', async (t) => {
  const forms = [
    multistatus(response('/dav/', folder), response('/dav/a%20b%26c', file(1)), response('/dav/d/', folder)),
    multistatus(
      response('http://other.example:81/dav/', folder),
      response('http://other.example/dav/a%20b&amp;c', file(1)),
      response('HTTP://x/DAV/d', folder),
    ),
    multistatus(response('/dav/', folder), response('a b&amp;c', file(1)), response('d/', folder)),
    multistatus(response('/dav/d/', folder), response('/dav//a%20b%26c', file(1)), response('/dav', folder)),
    multistatus(response('/dav/', folder), response('/dav/a b&c', file(1)), response('/dav/d/', folder)),
    `<multistatus xmlns="DAV:">${[response('/dav/', folder), response('/dav/a%20b%26c', file(1)), response('/dav/d/', folder)].join('').replaceAll('D:', '')}</multistatus>`,
    multistatus(response('/dav/', folder), response('/dav/a%20b%26c', file(1)), response('/dav/d/', folder)).replace(
      ' xmlns:D="DAV:"',
      '',
    ),
  ]
  for (const form of forms) {
    const driver = await listing(t, form)
    t.match(
      await listed(driver, '/'),
      [
        { name: 'a b&c', kind: 'file', size: 1 },
        { name: 'd', kind: 'folder', size: 0 },
      ],
      form,
    )
  }
})

await t.test('escapes that are none stand for themselves, and other encodings are known', async (t) => {
  const odd = await listing(
    t,
    multistatus(
      response('/dav/', folder),
      ...['100%', '%zz', '%u0041', 'a%2'].map((name) => response(`/dav/${name}`, file(1))),
    ),
  )
  t.same(await namesIn(odd, '/'), ['%u0041', '%zz', '100%', 'a%2'])
  const latin = multistatus(response('/dav/', folder), response('/dav/é', file(1))).replace(
    '?>',
    ' encoding="ISO-8859-1"?>',
  )
  t.same(await namesIn(await listing(t, Buffer.from(latin, 'latin1')), '/'), ['é'])
})

await t.test('names that cannot be are left out, and the log says so once', async (t) => {
  const names = [
    '..',
    '%2e%2e',
    '.',
    '%2e',
    'a%2fb',
    'a%5cb',
    'a%00b',
    '%ff%fe',
    'deep/er',
    '%2fetc%2fpasswd',
    '../../etc/passwd',
  ]
  const told: string[] = []
  const silent = () => undefined
  const log = { debug: silent, info: silent, warn: (_: object, text: string) => told.push(text), error: silent }
  const hostile = multistatus(
    response('/dav/', folder),
    ...names.map((name) => response(`/dav/${name}`, file(1))),
    response('/elsewhere', file(1)),
    response('/dav/good', file(1)),
  )
  const driver = await listing(t, hostile, { log })
  t.same(await namesIn(driver, '/'), ['good'])
  t.same(await namesIn(driver, '/'), ['good'])
  t.equal(told.length, 1)
})

let current = ''
const shared = await open(t, await serve(t, (_request, reply) => reply.writeHead(207).end(current)))

await t.test('a listing that does not come to its end is none', async (t) => {
  const whole = multistatus(response('/dav/', folder), response('/dav/one', file(1)), response('/dav/two', file(1)))
  for (const part of [whole.slice(0, -3), whole.slice(0, whole.indexOf('/dav/two')), '', '<html>no</html>', '{}']) {
    await refuses(t, () => listed(driverOf(part), '/'), 'unavailable', part.slice(-30))
  }
  const cut = await open(
    t,
    await serve(t, (_request, reply) => {
      reply.writeHead(207, { 'content-length': whole.length + 10 })
      reply.write(whole)
      setTimeout(() => reply.destroy(), 50)
    }),
  )
  await refuses(t, () => listed(cut, '/'), 'unavailable', 'cut off behind its end')
  const plain = await open(t, await serve(t, (_request, reply) => reply.writeHead(200).end(whole)))
  await refuses(t, () => listed(plain, '/'), 'unavailable', 'another status')

  function driverOf(xml: string): WritableDriver {
    current = xml
    return shared
  }
})

await t.test('an answer that never ends, or nests without end, is given up', async (t) => {
  const endless = await open(
    t,
    await serve(t, (_request, reply) => {
      reply.writeHead(207)
      reply.write('<D:multistatus xmlns:D="DAV:"><D:response><D:href>')
      const more = () => {
        while (!reply.destroyed && reply.write('x'.repeat(100_000)));
        if (!reply.destroyed) reply.once('drain', more)
      }
      more()
    }),
  )
  await refuses(t, () => listed(endless, '/'), 'unavailable', 'one name')
  const deep = await listing(t, `<D:multistatus xmlns:D="DAV:">${'<D:x>'.repeat(10_000)}`)
  await refuses(t, () => listed(deep, '/'), 'unavailable', 'depth')
  const bomb = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
  const entities = await listing(t, bomb + multistatus(response('/dav/', folder), response('/dav/&b;', file(1))))
  t.same(await namesIn(entities, '/'), ['&b;'], 'entities of its own mean nothing')
})

await t.test(
  'a server that does not know ranges is read from the start, and what is too much is left out',
  async (t) => {
    const content = 'abcdefghij'
    let answer: Answer = () => undefined
    const driver = await open(
      t,
      await serve(t, (request, reply) => {
        if (request.method === 'PROPFIND') reply.writeHead(207).end(multistatus(response('/dav/file', file(10))))
        else answer(request, reply)
      }),
    )
    answer = (_request, reply) => reply.end(content)
    t.equal(await textAt(driver, '/file', 3, 4), 'defg')
    t.equal(await textAt(driver, '/file', 3), 'defghij')
    t.equal(await textAt(driver, '/file', 12), '')
    answer = (_request, reply) => reply.writeHead(206, { 'content-range': 'bytes 3-9/10' }).end('defghij')
    t.equal(await textAt(driver, '/file', 3, 4), 'defg', 'more than was asked for')
    answer = (_request, reply) => reply.writeHead(206, { 'content-range': 'bytes 0-3/10' }).end('abcd')
    await refuses(t, () => textAt(driver, '/file', 3, 4), 'unavailable', 'another part')
    answer = (_request, reply) => reply.writeHead(206, { 'content-range': 'bytes 0-3/10' }).end('abcd')
    await refuses(t, () => textAt(driver, '/file'), 'unavailable', 'a part instead of the whole')
    answer = (_request, reply) => reply.writeHead(200, { 'content-encoding': 'gzip' }).end('abcd')
    await refuses(t, () => textAt(driver, '/file'), 'unavailable', 'something packed')
    answer = (_request, reply) => {
      reply.writeHead(200, { 'content-length': 10 })
      reply.write('abc')
      setTimeout(() => reply.destroy(), 20)
    }
    await refuses(t, () => textAt(driver, '/file'), 'unavailable', 'less than announced')
  },
)

await t.test('what a server has not stored whole is never published', async (t) => {
  const methods: string[] = []
  const driver = await open(
    t,
    await serve(t, (request, reply) => {
      methods.push(request.method ?? '')
      const isStaged = request.url?.includes('tidegate-part') === true
      if (request.method === 'PUT') request.once('end', () => reply.writeHead(201).end())
      else if (request.method === 'PROPFIND' && isStaged)
        reply.writeHead(207).end(multistatus(response(request.url ?? '', file(3))))
      else reply.writeHead(request.method === 'DELETE' ? 204 : 404).end()
    }),
  )
  await refuses(t, () => put(driver, '/file', 'hello'), 'unavailable', 'three bytes of five')
  t.equal(methods.includes('MOVE'), false)
  t.equal(methods.at(-1), 'DELETE', 'and what there is of it is removed')
})

await t.test('a server that wants to know the size is told from then on, and loses no body', async (t) => {
  const kept = new Map<string, string>()
  const state: DriverEnv['state'] = {
    get: async (key) => kept.get(key),
    set: async (key, value) => void kept.set(key, value ?? ''),
  }
  let asked = 0
  const server = createServer((request, reply) => {
    request.resume()
    if (request.method === 'PROPFIND' && request.url === '/dav/') {
      reply.writeHead(207).end(multistatus(response('/dav/', folder)))
    } else reply.writeHead(404).end()
  })
  server.on('checkContinue', (request: IncomingMessage, reply: ServerResponse) => {
    asked++
    reply.writeHead(request.headers['content-length'] === undefined ? 411 : 507, { connection: 'close' }).end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/dav`
  const driver = await open(t, address, {}, { state })
  const body = source('hello')
  let reads = 0
  const unknown: Source = {
    rereadable: false,
    read: (...call) => {
      reads++
      return body.read(...call)
    },
  }
  await refuses(t, () => driver.write(at('/file'), unknown), 'unsupported', 'chunks')
  await refuses(t, () => driver.write(at('/file'), unknown), 'unsupported', 'and once more')
  t.same([asked, reads], [1, 0], 'the server is asked once, and the body is still there')
  await refuses(t, () => driver.write(at('/file'), body), 'no_space', 'of known size it may')
  t.equal((await open(t, address, {}, { state })).traits?.writeNeeds, 'size')
})

await t.test('where a server lost the old file before it took the new one, the new one is put there', async (t) => {
  const files = new Set(['/dav/file'])
  let moves = 0
  let failures = 1
  const address = await serve(t, (request, reply) => {
    const { method = '', url = '' } = request
    if (method === 'PUT') {
      files.add(url)
      request.once('end', () => reply.writeHead(201).end())
    } else if (method === 'MOVE') {
      files.delete('/dav/file')
      if (moves++ < failures) reply.writeHead(500).end()
      else {
        files.delete(url)
        files.add('/dav/file')
        reply.writeHead(201).end()
      }
    } else if (method === 'DELETE') {
      files.delete(url)
      reply.writeHead(204).end()
    } else if (request.headers.depth === '1') {
      reply.writeHead(207).end(multistatus(response(url, folder), ...[...files].map((each) => response(each, file(5)))))
    } else if (files.has(url)) reply.writeHead(207).end(multistatus(response(url, file(5))))
    else reply.writeHead(404).end()
  })
  const kept = new Map<string, string>()
  const state: DriverEnv['state'] = {
    get: async (key) => kept.get(key),
    set: async (key, value) => {
      if (value === undefined) kept.delete(key)
      else kept.set(key, value)
    },
  }
  const first = await open(t, address, {}, { state })
  await refuses(t, () => put(first, '/file', 'hello'), 'unavailable', 'a server that fails in the middle')
  t.same([...files], ['/dav/file'], 'at once, where it lets us')

  failures = moves + 2
  await refuses(t, () => put(first, '/file', 'hello'), 'unavailable', 'one that fails twice')
  t.equal(files.size, 1)
  t.match([...files][0], /tidegate-part/, 'the new file is all there is')
  await first.close?.()
  const instance = { name: 'another', isOver: () => true }
  const later = await open(t, address, {}, { state, instance })
  t.same(await namesIn(later, '/'), [])
  for (let tries = 0; tries < 50 && !files.has('/dav/file'); tries++) await pause(20)
  t.same([...files], ['/dav/file'], 'by a later run, when the folder is listed')
  t.same(await namesIn(later, '/'), ['file'])
  for (let tries = 0; tries < 50 && kept.size > 0; tries++) await pause(20)
  t.same([...kept], [], 'nothing is remembered of it')
})

await t.test('of a removal that left something behind, the reason is told', async (t) => {
  const driver = await open(
    t,
    await serve(t, (request, reply) => {
      if (request.method === 'PROPFIND') reply.writeHead(207).end(multistatus(response('/dav/tree/', folder)))
      else {
        const failed = '<D:status>HTTP/1.1 423 Locked</D:status>'
        reply
          .writeHead(207)
          .end(
            multistatus(response('/dav/tree', '<D:status>HTTP/1.1 424 x</D:status>'), response('/dav/tree/a', failed)),
          )
      }
    }),
  )
  await refuses(t, async () => driver.removeTree?.(at('/tree')), 'locked', 'a lock within')
})

await t.test('a direct address is told where the server sends everybody elsewhere, and nowhere else', async (t) => {
  let target: string | undefined
  const driver = await open(
    t,
    await serve(t, (request, reply) => {
      if (request.method === 'PROPFIND') reply.writeHead(207).end(multistatus(response(request.url ?? '', file(5))))
      else if (target === undefined) reply.end('hello')
      else reply.writeHead(302, { location: target }).end()
    }),
  )
  const link = async () => driver.link?.(at('/file'))
  await refuses(t, link, 'unsupported', 'a file that the server sends itself')
  for (target of ['/dav/other', 'javascript:alert(1)', 'https://name:word@files.example/x', 'http://[']) {
    await refuses(t, link, 'unsupported', target)
  }
  target = 'https://files.example/x?signature=y'
  t.same(await link(), { url: target })
})

await t.test('checksums, quota and paths behind another server are told', async (t) => {
  const sums =
    '<D:propstat><D:prop><O:checksums xmlns:O="http://owncloud.org/ns"><O:checksum>SHA1:' +
    `${'A'.repeat(40)} MD5:${'b'.repeat(32)} ADLER32:00000000</O:checksum></O:checksums><D:getcontentlength>1</D:getcontentlength></D:prop></D:propstat>`
  const quota = folder.replace(
    '</D:prop>',
    '<D:quota-available-bytes>70</D:quota-available-bytes><D:quota-used-bytes>30</D:quota-used-bytes></D:prop>',
  )
  const server = createServer((request, reply) => {
    request.resume()
    const own = response('/internal/dav/', quota)
    reply
      .writeHead(207)
      .end(multistatus(own, ...(request.headers.depth === '1' ? [response('/internal/dav/file', sums)] : [])))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const driver = await open(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}/outside`)
  t.match(await listed(driver, '/'), [{ name: 'file', hashes: { sha1: 'a'.repeat(40), md5: 'b'.repeat(32) } }])
  t.same(await driver.usage?.(), { total: 100, used: 30, free: 70 })
})

await t.test('wrong options are told for what they are', async (t) => {
  const address = await serve(t, (_request, reply) => reply.writeHead(404).end())
  await refuses(t, () => open(t, address, { root_folder_path: '/none' }), 'invalid', 'a root that is not there')
  await refuses(t, () => open(t, address, { root_folder_path: '/../x' }), 'invalid', 'a root that climbs')
  await refuses(t, () => open(t, 'ftp://host/'), 'invalid', 'another scheme')
  await refuses(t, () => open(t, 'http://name:word@host/'), 'invalid', 'credentials in the address')
  await refuses(t, () => open(t, address, { username: 'a:b' }), 'invalid', 'a colon in the name')
  await refuses(t, () => open(t, address, { vendor: 'sharepoint' }), 'unsupported', 'SharePoint')
  await refuses(t, () => open(t, 'http://127.0.0.1:1/'), 'unavailable', 'nobody listens')
  await refuses(t, () => open(t, address.replace('http:', 'https:')), 'unavailable', 'no TLS there')
})
