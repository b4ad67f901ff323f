/** The WebDAV driver on careless, faulty and hostile servers. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { entryOf } from '../../../drivers/webdav/multistatus.js'
import { webdavFields, webdavType, type WebdavOptions } from '../../../drivers/webdav/index.js'
import type { Source } from '../../../src/contract/call-options.js'
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import {
  at,
  listed,
  namesIn,
  put,
  refuses,
  source,
  textAt,
  shownBy,
  type WritableDriver,
} from '../../driver-conformance/subject.js'
import { testEnv } from '../env.js'
import { memoryState } from '../lib/cloud/vendor.js'
import { until } from '../../until.js'

type Answer = (request: IncomingMessage, response: ServerResponse) => void

const folder = '<D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype></D:prop></D:propstat>'
const file = (size: number) =>
  `<D:propstat><D:prop><D:resourcetype/><D:getcontentlength>${size}</D:getcontentlength></D:prop>` +
  '<D:status>HTTP/1.1 200 OK</D:status></D:propstat>'
const response = (href: string, content: string) => `<D:response><D:href>${href}</D:href>${content}</D:response>`
const multistatus = (...responses: string[]) =>
  `<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">${responses.join('')}</D:multistatus>`

/** A server whose root is a folder. `answer` handles all other requests. */
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

/** A driver on a server that returns this listing for every request. */
async function listing(t: Test, xml: string | Buffer, env: Partial<DriverEnv> = {}): Promise<WritableDriver> {
  return open(t, await serve(t, (_request, reply) => reply.writeHead(207).end(xml)), {}, env)
}

await t.test('WebDAV parses listings in every form that servers send', async (t) => {
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

await t.test('WebDAV takes invalid escapes literally, and decodes other encodings', async (t) => {
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

await t.test('WebDAV: invalid names are left out, and this is logged once', async (t) => {
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
  const hostile = multistatus(
    response('/dav/', folder),
    ...names.map((name) => response(`/dav/${name}`, file(1))),
    response('/elsewhere', file(1)),
    response('/dav/good', file(1)),
  )
  const { names: shown, logged } = shownBy(await listing(t, hostile))
  t.same(await shown('/'), ['good'])
  t.same(await shown('/'), ['good'])
  t.equal(logged.length, 1)
})

await t.test('WebDAV does not remove a folder that contains only such names', async (t) => {
  const methods: string[] = []
  const address = await serve(t, (request, reply) => {
    methods.push(request.method ?? '')
    const itself = response('/dav/folder/', folder)
    const members = request.headers.depth === '1' ? [response('/dav/folder/a%5cb', file(1))] : []
    reply.writeHead(207).end(multistatus(itself, ...members))
  })
  const driver = await open(t, address)
  await refuses(t, () => driver.remove(at('/folder')), 'not_empty', 'the folder')
  t.notOk(methods.includes('DELETE'), 'DELETE would have removed its members')
})

let current = ''
const shared = await open(t, await serve(t, (_request, reply) => reply.writeHead(207).end(current)))

await t.test('WebDAV rejects an incomplete listing', async (t) => {
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
  await refuses(t, () => listed(cut, '/'), 'unavailable', 'cut off after its end')
  const plain = await open(t, await serve(t, (_request, reply) => reply.writeHead(200).end(whole)))
  await refuses(t, () => listed(plain, '/'), 'unavailable', 'another status')

  function driverOf(xml: string): WritableDriver {
    current = xml
    return shared
  }
})

await t.test('WebDAV rejects endless and deeply nested listings', async (t) => {
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
  await refuses(t, () => listed(endless, '/'), 'unavailable', 'an endless name')
  const deep = await listing(t, `<D:multistatus xmlns:D="DAV:">${'<D:x>'.repeat(10_000)}`)
  await refuses(t, () => listed(deep, '/'), 'unavailable', 'depth')
  const bomb = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
  const entities = await listing(t, bomb + multistatus(response('/dav/', folder), response('/dav/&b;', file(1))))
  t.same(await namesIn(entities, '/'), ['&b;'], 'custom entities are not expanded')
})

await t.test('WebDAV reads ranges from servers that ignore them, and rejects wrong ranges', async (t) => {
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
  t.equal(await textAt(driver, '/file', 3, 4), 'defg', 'more than requested')
  answer = (_request, reply) => reply.writeHead(206, { 'content-range': 'bytes 0-3/10' }).end('abcd')
  await refuses(t, () => textAt(driver, '/file', 3, 4), 'unavailable', 'another range')
  answer = (_request, reply) => reply.writeHead(206, { 'content-range': 'bytes 0-3/10' }).end('abcd')
  await refuses(t, () => textAt(driver, '/file'), 'unavailable', 'a range instead of the whole file')
  answer = (_request, reply) => reply.writeHead(200, { 'content-encoding': 'gzip' }).end('abcd')
  await refuses(t, () => textAt(driver, '/file'), 'unavailable', 'a compressed body')
  answer = (_request, reply) => {
    reply.writeHead(200, { 'content-length': 10 })
    reply.write('abc')
    setTimeout(() => reply.destroy(), 20)
  }
  await refuses(t, () => textAt(driver, '/file'), 'unavailable', 'fewer bytes than announced')
  for (const sent of ['abcd', `${content}${content}`]) {
    answer = (_request, reply) => reply.writeHead(200, { 'content-length': sent.length }).end(sent)
    await refuses(t, () => textAt(driver, '/file'), 'unavailable', `${sent.length} bytes, announced, of 10`)
    await refuses(t, () => textAt(driver, '/file', 1, 2), 'unavailable', `${sent.length} bytes instead of a range`)
  }
})

await t.test('WebDAV rejects a truncated body, even without Content-Length', async (t) => {
  let answer: Answer = () => undefined
  const driver = await open(
    t,
    await serve(t, (request, reply) => {
      if (request.method === 'PROPFIND') reply.writeHead(207).end(multistatus(response('/dav/file', file(10))))
      else answer(request, reply)
    }),
  )
  // Without a length, as some old servers respond: the body ends with the connection.
  const endsWith = (head: string, body: string) => (_request: IncomingMessage, reply: ServerResponse) => {
    reply.socket?.end(`HTTP/1.1 ${head}\r\nConnection: close\r\n\r\n${body}`)
  }
  answer = endsWith('200 OK', 'abcde')
  await refuses(t, () => textAt(driver, '/file'), 'unavailable', 'a whole file')
  await refuses(t, () => textAt(driver, '/file', 3, 4), 'unavailable', 'a part of a whole file')
  answer = endsWith('200 OK', 'abcdefghij')
  t.equal(await textAt(driver, '/file'), 'abcdefghij', 'a complete body without a length')
  answer = endsWith('206 Partial Content\r\nContent-Range: bytes 3-6/10', 'de')
  await refuses(t, () => textAt(driver, '/file', 3, 4), 'unavailable', 'a part')
  await refuses(t, () => textAt(driver, '/file', 3), 'unavailable', 'the rest of the file')
  answer = endsWith('206 Partial Content\r\nContent-Range: bytes 3-6/10', 'defg')
  t.equal(await textAt(driver, '/file', 3, 4), 'defg')
  answer = (_request, reply) => {
    reply.write('abcde')
    reply.end()
  }
  await refuses(t, () => textAt(driver, '/file'), 'unavailable', 'chunked')
})

await t.test('WebDAV rejects a range that is shorter than requested, whatever its Content-Range', async (t) => {
  let range = ''
  const driver = await open(
    t,
    await serve(t, (request, reply) => {
      if (request.method === 'PROPFIND') reply.writeHead(207).end(multistatus(response('/dav/file', file(10))))
      else reply.writeHead(206, { 'content-range': range }).end('de')
    }),
  )
  for (const told of ['bytes 3-4/10', 'bytes 3-4/*', 'bytes 3-4/5']) {
    range = told
    await refuses(t, () => textAt(driver, '/file', 3, 4), 'unavailable', `${told}, of four`)
    await refuses(t, () => textAt(driver, '/file', 3), 'unavailable', `${told}, of the rest`)
    const asLong = () => textAt(driver, '/file', 3, 2)
    if (told.endsWith('/5')) await refuses(t, asLong, 'unavailable', 'of another file')
    else t.equal(await asLong(), 'de', 'as long as requested')
  }
})

await t.test('WebDAV does not trust a server that reports a file as stored without reading the body', async (t) => {
  const methods: string[] = []
  const server = createServer((request, reply) => {
    request.resume()
    methods.push(request.method ?? '')
    if (request.method !== 'PROPFIND') reply.writeHead(204).end()
    else if (request.url === '/dav/') reply.writeHead(207).end(multistatus(response('/dav/', folder)))
    else if (request.url?.includes('tidegate-part') === true)
      reply.writeHead(207).end(multistatus(response(request.url, file(0))))
    else reply.writeHead(404).end()
  })
  server.on('checkContinue', (_request: IncomingMessage, reply: ServerResponse) => reply.writeHead(201).end())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const driver = await open(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}/dav`)
  await refuses(t, () => put(driver, '/file', 'hello'), 'unavailable', 'an empty file')
  t.equal(methods.includes('MOVE'), false)
})

await t.test(
  'WebDAV lists with bounded memory, even if the server sends the folder itself last or ignores Depth',
  async (t) => {
    const members = Array.from({ length: 4500 }, (_, index) => response(`/dav/folder/${index}`, file(1)))
    let size = 4500
    const depths: unknown[] = []
    const driver = await open(
      t,
      await serve(t, ({ headers: { depth } }, reply) => {
        depths.push(depth)
        const all = Array.from({ length: size / members.length }, () => members).flat()
        // Ignores Depth.
        reply.writeHead(207).end(multistatus(...all, response('/dav/folder/', folder)))
      }),
    )
    t.equal((await driver.stat(at('/folder'))).kind, 'folder')
    depths.length = 0
    const pages: number[] = []
    for await (const page of driver.pages(at('/folder'))) pages.push(page.length)
    t.equal(
      pages.reduce((sum, length) => sum + length, 0),
      4500,
    )
    t.ok(Math.max(...pages) <= 2000, 'no page waits for the folder itself')
    t.same(depths, ['1', '0'], 'the folder is requested separately')
    size = 18_000
    await refuses(t, () => driver.stat(at('/folder')), 'unavailable', 'too many entries')
  },
)

await t.test('WebDAV removes orphaned staged files one after another', async (t) => {
  const left = Array.from({ length: 50 }, (_, index) => `/dav/.~tidegate-part-dead-run-${index.toString(16)}`)
  const seen = { now: 0, most: 0, all: 0 }
  const driver = await open(
    t,
    await serve(t, (request, reply) => {
      if (request.method === 'DELETE') {
        seen.all++
        seen.most = Math.max(seen.most, ++seen.now)
        setImmediate(() => {
          seen.now--
          reply.writeHead(204).end()
        })
      } else
        reply.writeHead(207).end(multistatus(response('/dav/', folder), ...left.map((href) => response(href, file(1)))))
    }),
    {},
    { instance: { name: 'this-run', isOver: (name) => name === 'dead-run' } },
  )
  t.same(await namesIn(driver, '/'), [])
  await until(() => seen.all === 50)
  t.equal(seen.most, 1)
})

await t.test('WebDAV does not publish a file that the server has stored incompletely', async (t) => {
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
  await refuses(t, () => put(driver, '/file', 'hello'), 'unavailable', 'three of five bytes')
  t.equal(methods.includes('MOVE'), false)
  t.equal(methods.at(-1), 'DELETE', 'the staged file is removed')
})

await t.test('WebDAV remembers that a server requires Content-Length, and keeps the body for a retry', async (t) => {
  const { state } = memoryState()
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
  await refuses(t, () => driver.write(at('/file'), unknown), 'unsupported', 'a second time')
  t.same([asked, reads], [1, 0], 'the server is asked once, and the body is not read')
  await refuses(t, () => driver.write(at('/file'), body), 'no_space', 'a body of known size')
  t.equal((await open(t, address, {}, { state })).traits?.writeNeeds, 'size')
})

/** A server of files in one folder. `named`: the file of a `Destination`. */
async function renaming(t: Test, named = (destination: string) => new URL(destination).pathname) {
  const files = new Map<string, string>([['/dav/q', 'the file q']])
  const folders = new Set<string>()
  const moves: unknown[] = []
  const arrived = { put: async () => undefined as unknown }
  const address = await serve(t, (request, reply) => {
    const { method = '', url = '', headers } = request
    const to = named(String(headers.destination ?? address))
    const [content, isTaken] = [files.get(url), files.has(to) || folders.has(to)]
    if (method === 'PUT') {
      files.set(url, 'staged')
      request.once('end', () => void arrived.put().then(() => reply.writeHead(201).end()))
    } else if (method === 'MOVE' || method === 'COPY') {
      moves.push(headers.overwrite)
      if (content === undefined) reply.writeHead(404).end()
      else if (isTaken && headers.overwrite === 'F') reply.writeHead(412).end()
      else {
        files.set(to, content)
        if (method === 'MOVE') files.delete(url)
        reply.writeHead(isTaken ? 204 : 201).end()
      }
    } else if (method === 'DELETE') reply.writeHead(files.delete(url) ? 204 : 404).end()
    else if (folders.has(url)) reply.writeHead(207).end(multistatus(response(url, folder)))
    else if (content !== undefined) reply.writeHead(207).end(multistatus(response(url, file(6))))
    else reply.writeHead(404).end()
  })
  return { driver: await open(t, address), files, folders, moves, arrived }
}

await t.test('WebDAV replaces nothing where it has found nothing', async (t) => {
  const { driver, files, folders, moves, arrived } = await renaming(t)
  await put(driver, '/new', 'staged')
  await driver.copy?.(at('/new'), at('/copy'))
  await driver.move?.(at('/copy'), at('/moved'))
  t.same(moves, ['F', 'F', 'F', 'F'])
  await put(driver, '/new', 'staged')
  t.equal(moves.pop(), 'T', 'over a file that was there')
  arrived.put = async () => files.set('/dav/meanwhile', 'of another client')
  await put(driver, '/meanwhile', 'staged')
  t.same(moves.slice(-2), ['F', 'T'], 'over a file that another client has created meanwhile')
  t.equal(files.get('/dav/meanwhile'), 'staged')
  arrived.put = async () => folders.add('/dav/folder')
  await refuses(t, () => put(driver, '/folder', 'staged'), 'is_folder', 'a folder that was created meanwhile')
  t.equal(moves.at(-1), 'F')
  t.same([...files.keys()], ['/dav/q', '/dav/new', '/dav/moved', '/dav/meanwhile'], 'no staged file')
})

await t.test('WebDAV does not replace another file on a server that decodes Destination twice', async (t) => {
  const { driver, files } = await renaming(t, (to) => new URL(decodeURIComponent(to)).pathname)
  await refuses(t, () => put(driver, '/q?x.txt', 'staged'), 'invalid', 'an upload')
  await driver.write(at('/file'), source('staged'))
  await refuses(t, async () => driver.copy?.(at('/file'), at('/q#x')), 'invalid', 'a copy')
  await refuses(t, async () => driver.move?.(at('/file'), at('/q?x')), 'invalid', 'a move')
  t.same(
    [...files],
    [
      ['/dav/q', 'the file q'],
      ['/dav/file', 'staged'],
    ],
    'no staged file',
  )
})

await t.test('WebDAV publishes the new file if a failed MOVE has already removed the old one', async (t) => {
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
  const { state } = memoryState(kept)
  const first = await open(t, address, {}, { state })
  await refuses(t, () => put(first, '/file', 'hello'), 'unavailable', 'a MOVE that fails')
  t.same([...files], ['/dav/file'], 'at once, if the server permits it')

  failures = moves + 2
  await refuses(t, () => put(first, '/file', 'hello'), 'unavailable', 'a MOVE that fails twice')
  t.equal(files.size, 1)
  t.match([...files][0], /tidegate-part/, 'the staged file is the only one')
  await first.close?.()
  const instance = { name: 'another', isOver: () => true }
  const later = await open(t, address, {}, { state, instance })
  t.same(await namesIn(later, '/'), [])
  await until(() => files.has('/dav/file'))
  t.same([...files], ['/dav/file'], 'by a later instance, when the folder is listed')
  t.same(await namesIn(later, '/'), ['file'])
  await until(() => kept.size === 0)
  t.same([...kept], [], 'no state remains')
})

/**
 * A server that moves in three steps, like servers that cannot rename. `step` is called before each, and may delay or
 * fail it.
 */
async function moving(t: Test, step: (which: 'remove' | 'copy' | 'end', reply: ServerResponse) => Promise<void>) {
  const files = new Map([['/dav/file', 'old file']])
  const move = async (from: string, to: string, reply: ServerResponse) => {
    await step('remove', reply)
    files.delete(to)
    await step('copy', reply)
    const content = files.get(from)
    if (content === undefined) return reply.writeHead(404).end()
    files.set(to, content)
    await step('end', reply)
    files.delete(from)
    return reply.writeHead(201).end()
  }
  const address = await serve(t, (request, reply) => {
    const { method = '', url = '', headers } = request
    if (method === 'PUT') {
      const parts: Buffer[] = []
      request.on('data', (part: Buffer) => parts.push(part))
      request.once('end', () => {
        files.set(url, Buffer.concat(parts).toString())
        reply.writeHead(201).end()
      })
    } else if (method === 'MOVE') {
      move(url, new URL(String(headers.destination)).pathname, reply).catch(() => undefined)
    } else if (method === 'DELETE') {
      reply.writeHead(files.delete(url) ? 204 : 404).end()
    } else if (headers.depth === '1') {
      const members = [...files].map(([href, content]) => response(href, file(content.length)))
      reply.writeHead(207).end(multistatus(response(url, folder), ...members))
    } else {
      const content = files.get(url)
      if (content === undefined) reply.writeHead(404).end()
      else reply.writeHead(207).end(multistatus(response(url, file(content.length))))
    }
  })
  return { address, files }
}

await t.test('WebDAV: an abort during a MOVE loses neither file', async (t) => {
  for (const where of ['remove', 'copy', 'end'] as const) {
    let release: () => void = () => undefined
    const held = { isHeld: false }
    const { address, files } = await moving(t, async (which) => {
      if (which !== where || held.isHeld) return
      held.isHeld = true
      await new Promise<void>((resolve) => (release = resolve))
    })
    const driver = await open(t, address)
    const controller = new AbortController()
    const writing = driver.write(at('/file'), source('the new one'), { signal: controller.signal })
    writing.catch(() => undefined)
    await until(() => held.isHeld)
    controller.abort()
    await refuses(t, () => writing, 'aborted', where)
    t.ok([...files.values()].includes('the new one'), 'the server still has the new file')
    const next = put(driver, '/file', 'and the next')
    release()
    await next
    t.same([...files], [['/dav/file', 'and the next']], 'the next write waits for the MOVE, and no staged file is left')
  }
})

await t.test('WebDAV keeps the staged file while the outcome of a MOVE is unknown', async (t) => {
  const { state } = memoryState()
  for (const [where, left] of [
    ['remove', 'old file'],
    ['copy', undefined],
    ['end', 'the new one'],
  ] as const) {
    const { address, files } = await moving(t, async (which, reply) => {
      if (which !== where) return
      reply.destroy()
      throw new Error('the server has crashed')
    })
    const driver = await open(t, address, {}, { state })
    await refuses(t, () => put(driver, '/file', 'the new one'), 'unavailable', where)
    t.equal(files.get('/dav/file'), left)
    t.same(await namesIn(driver, '/'), left === undefined ? [] : ['file'])
    const later = await open(t, address, {}, { state, instance: { name: 'another', isOver: () => true } })
    await namesIn(later, '/')
    await pause(50)
    t.equal(
      files.size,
      left === undefined ? 1 : 2,
      'also when the folder is listed, by this instance and by another one',
    )
    t.ok([...files.values()].includes('the new one'), 'the server may still be moving it')
  }
})

await t.test('WebDAV does not take a truncated copy of a failed MOVE for the new file', async (t) => {
  const { address, files } = await moving(t, async (which, reply) => {
    if (which !== 'end' || files.has('/dav/file~kept')) return
    if (files.get('/dav/file') !== 'the new one') return
    files.set('/dav/file', 'the')
    reply.writeHead(500).end()
    throw new Error('the disk is full')
  })
  const driver = await open(t, address)
  await refuses(t, () => put(driver, '/file', 'the new one'), 'unavailable', 'a MOVE that fails')
  const [half, kept] = await namesIn(driver, '/')
  t.equal(half, 'file')
  t.match(kept, /^file~kept-[0-9a-f]{8}$/, 'the complete file is listed beside it')
  t.equal(files.get(`/dav/${kept ?? ''}`), 'the new one')
  t.equal(files.size, 2)
})

await t.test('WebDAV: a rejected MOVE leaves the old file and no staged file', async (t) => {
  for (const status of [403, 412, 423, 507]) {
    const { address, files } = await moving(t, async (_which, reply) => {
      reply.writeHead(status).end()
      throw new Error('refused')
    })
    const driver = await open(t, address)
    await refuses(t, () => put(driver, '/file', 'the new one'), ['denied', 'exists', 'locked', 'no_space'], `${status}`)
    t.same([...files], [['/dav/file', 'old file']])
  }
})

await t.test('WebDAV reports why a removal was incomplete', async (t) => {
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
  await refuses(t, async () => driver.removeTree?.(at('/tree')), 'locked', 'a locked member')
})

await t.test(
  'WebDAV offers a direct URL only for a redirect to a valid http or https address without credentials',
  async (t) => {
    let target: string | undefined
    const driver = await open(
      t,
      await serve(t, (request, reply) => {
        if (request.method === 'PROPFIND') reply.writeHead(207).end(multistatus(response(request.url ?? '', file(5))))
        else if (target === undefined) reply.end('hello')
        else reply.writeHead(302, { location: target }).end()
      }),
    )
    const link = async () => driver.directUrl?.(at('/file'))
    await refuses(t, link, 'unsupported', 'a file without a redirect')
    for (target of ['/dav/other', 'javascript:alert(1)', 'https://name:word@files.example/x', 'http://[']) {
      await refuses(t, link, 'unsupported', target)
    }
    target = 'https://files.example/x?signature=y'
    t.same(await link(), { url: target })
  },
)

await t.test('WebDAV reads checksums, quota and the paths of a server behind a proxy', async (t) => {
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

await t.test('WebDAV rejects wrong options with a fitting error', async (t) => {
  const address = await serve(t, (_request, reply) => reply.writeHead(404).end())
  await refuses(t, () => open(t, address, { root_folder_path: '/none' }), 'invalid', 'a missing root')
  await refuses(t, () => open(t, address, { root_folder_path: '/../x' }), 'invalid', 'a root above the address')
  await refuses(t, () => open(t, 'ftp://host/'), 'invalid', 'another scheme')
  await refuses(t, () => open(t, 'http://name:word@host/'), 'invalid', 'credentials in the address')
  await refuses(t, () => open(t, address, { username: 'a:b' }), 'invalid', 'a colon in the name')
  await refuses(t, () => open(t, address, { vendor: 'sharepoint' }), 'unsupported', 'SharePoint')
  await refuses(t, () => open(t, 'http://127.0.0.1:1/'), 'unavailable', 'no server listens')
  await refuses(t, () => open(t, address.replace('http:', 'https:')), 'unavailable', 'a server without TLS')
})

void t.test('an empty entity tag is no revision', async (t) => {
  for (const etag of ['""', 'W/""', undefined])
    t.equal(entryOf('name', etag === undefined ? {} : { etag }).revision, undefined)
  t.equal(entryOf('name', { etag: 'W/"a"' }).revision, 'a')
})
