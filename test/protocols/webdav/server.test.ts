/** The protocol over a real tree, by HTTP. */
import { connect } from 'node:net'
import t from 'tap'
import { parseXml, serializeContent } from '../../../protocols/webdav/xml.js'
import { startGateway } from '../../gateway.js'
import { find, lockinfo, propfind, proppatch, sender, texts, tokenOf } from './dav-client.js'

for (const driver of ['Local', 'Memory']) {
  void t.test(`the WebDAV protocol over ${driver}`, async (t) => {
    const running = await startGateway(t, driver === 'Local' ? {} : { driver: { name: driver } })
    const send = sender(running)
    const { pathname } = new URL(running.davUrl)
    const base = pathname.replace(/\/$/, '')

    await t.test('OPTIONS returns the DAV classes without credentials', async (t) => {
      const { status, headers } = await sender(running, { authorization: '' })('OPTIONS', '/')
      t.equal(status, 200)
      t.equal(headers.dav, '1, 2, 3')
      t.equal(headers['ms-author-via'], 'DAV')
      t.match(headers.allow, /PROPFIND/)
    })

    await t.test('missing or wrong credentials are answered with 401', async (t) => {
      for (const authorization of [
        '',
        'Basic !!',
        'Digest x',
        `Basic ${Buffer.from('admin:wrong').toString('base64')}`,
      ]) {
        const { status, headers } = await sender(running, { authorization })('PROPFIND', '/', { depth: '0' })
        t.equal(status, 401, authorization)
        t.match(headers['www-authenticate'], /^Basic realm="Tidegate"/)
      }
    })

    await t.test('PUT reports whether it created the file, and its entity tag', async (t) => {
      const made = await send('PUT', '/put.txt', {}, 'one')
      t.equal(made.status, 201)
      t.match(made.headers.etag, /^"[^"]+"$/)
      const replaced = await send('PUT', '/put.txt', { 'if-match': String(made.headers.etag) }, 'two')
      t.equal(replaced.status, 204)
      t.not(replaced.headers.etag, made.headers.etag)
      t.equal((await send('PUT', '/put.txt', { 'if-match': String(made.headers.etag) }, 'three')).status, 412)
      t.equal((await send('PUT', '/put.txt', { 'if-none-match': '*' }, 'three')).status, 412)
      const got = await send('GET', '/put.txt')
      t.match(got, { status: 200, body: 'two', headers: { etag: replaced.headers.etag } })
      t.equal((await send('PUT', '/empty', {}, '')).status, 201)
      t.match(await send('GET', '/empty'), { status: 200, body: '' })
    })

    await t.test('PUT rejects unsupported requests', async (t) => {
      await send('MKCOL', '/folder')
      t.equal((await send('PUT', '/missing/file', {}, 'x')).status, 409)
      t.equal((await send('PUT', '/put.txt/file', {}, 'x')).status, 409)
      t.equal((await send('PUT', '/folder', {}, 'x')).status, 405)
      t.equal((await send('PUT', '/new/', {}, 'x')).status, 405)
      t.equal((await send('PUT', '/part', { 'content-range': 'bytes 0-0/2' }, 'x')).status, 400)
      t.equal((await send('GET', '/part')).status, 404)
    })

    await t.test('X-OC-Mtime sets the modification time', async (t) => {
      const put = await send('PUT', '/dated', { 'x-oc-mtime': '1500000000' }, 'x')
      t.match(put, { status: 201, headers: { 'x-oc-mtime': 'accepted' } })
      t.match((await send('HEAD', '/dated')).headers, { 'last-modified': 'Fri, 14 Jul 2017 02:40:00 GMT' })
      t.equal((await send('PUT', '/dated', { 'x-oc-mtime': 'now' }, 'x')).status, 400)
    })

    await t.test('GET of a folder is not allowed, HEAD reports a folder', async (t) => {
      const got = await send('GET', '/folder/')
      t.equal(got.status, 405)
      t.notMatch(got.headers.allow, /GET/)
      t.match(await send('HEAD', '/folder/'), { status: 200, headers: { 'content-type': 'httpd/unix-directory' } })
      t.equal((await send('GET', '/nothing')).status, 404)
    })

    await t.test('hrefs of names of every kind can be requested', async (t) => {
      await send('MKCOL', '/names')
      const names = ['# % ? + é 世界 "', "it's & <that>", '.hidden', '%41', '😀']
      for (const name of names) {
        t.equal((await send('PUT', `/names/${encodeURIComponent(name)}`, {}, name)).status, 201, name)
      }
      const { body } = await send('PROPFIND', '/names', { depth: '1' }, propfind('<D:displayname/>'))
      const [own, ...hrefs] = texts(body, 'href')
      t.equal(own, `${base}/names/`)
      t.same(hrefs.map((href) => decodeURIComponent(href.slice(`${base}/names/`.length))).sort(), [...names].sort())
      t.same(texts(body, 'displayname').slice(1).sort(), [...names].sort())
      for (const href of hrefs) t.equal((await send('GET', href.slice(base.length))).status, 200, href)
    })

    await t.test('PROPFIND returns existing properties, and reports missing ones', async (t) => {
      const asked = propfind('<D:resourcetype/><D:getcontentlength/><D:nothing/><O:nothing/>')
      const { status, body } = await send('PROPFIND', '/put.txt', { depth: '0' }, asked)
      t.equal(status, 207)
      const [ok, missing] = find(parseXml(body), 'propstat')
      t.match(ok && serializeContent(ok), /getcontentlength.*200 OK/)
      t.match(missing && serializeContent(missing), /nothing.*nothing.*404 Not Found/)
      const brief = await send('PROPFIND', '/put.txt', { depth: '0', prefer: 'return=minimal' }, asked)
      t.equal(find(parseXml(brief.body), 'propstat').length, 1)
      const quota = await send(
        'PROPFIND',
        '/',
        { depth: '0' },
        propfind('<D:quota-available-bytes/><D:quota-used-bytes/>'),
      )
      t.ok(Number(texts(quota.body, 'quota-available-bytes')[0]) > 0)
      const names = await send(
        'PROPFIND',
        '/put.txt',
        { depth: '0' },
        '<D:propfind xmlns:D="DAV:"><D:propname/></D:propfind>',
      )
      t.same(texts(names.body, 'getetag'), [''])
      t.equal((await send('PROPFIND', '/nothing', { depth: '0' })).status, 404)
    })

    await t.test('PROPFIND of infinite depth lists a small tree and is rejected for a large one', async (t) => {
      await send('MKCOL', '/deep')
      await send('MKCOL', '/deep/er')
      await send('PUT', '/deep/er/file', {}, 'x')
      const { status, body } = await send('PROPFIND', '/deep')
      t.equal(status, 207)
      t.same(texts(body, 'href'), [`${base}/deep/`, `${base}/deep/er/`, `${base}/deep/er/file`])
    })

    await t.test('dead properties are stored unchanged, all or none of a request', async (t) => {
      const value = '<a:b xmlns:a="urn:a" c="&quot;1&quot;">text &amp; <d xmlns="urn:d"/></a:b>'
      await send('PUT', '/dead', {}, 'x')
      const set = await send('PROPPATCH', '/dead', {}, proppatch(`<p xmlns="urn:p" xml:lang="de">${value}</p>`))
      t.equal(set.status, 207)
      const read = async (path: string) =>
        (await send('PROPFIND', path, { depth: '0' }, propfind('<p xmlns="urn:p"/>'))).body
      const [kept] = find(parseXml(await read('/dead')), 'p')
      t.equal(kept?.language, 'de')
      t.equal(kept && serializeContent(kept), value)
      const mixed = await send('PROPPATCH', '/dead', {}, proppatch('<q xmlns="urn:q">1</q><D:getetag>"x"</D:getetag>'))
      t.match(mixed.body, /getetag.*403 Forbidden.*cannot-modify-protected-property.*424 Failed Dependency/)
      t.notMatch((await send('PROPFIND', '/dead', { depth: '0' })).body, /urn:q/)
      t.equal((await send('MOVE', '/dead', { destination: `${base}/dead2` })).status, 201)
      t.match(await read('/dead2'), /urn:d/)
      await send('PROPPATCH', '/dead2', {}, proppatch('', '<p xmlns="urn:p"/>'))
      t.match(await read('/dead2'), /404 Not Found/)
    })

    await t.test('times that clients set by PROPPATCH are returned', async (t) => {
      await send('PUT', '/times', {}, 'x')
      const modified = async () => (await send('HEAD', '/times')).headers['last-modified']
      const windows =
        '<M:Win32CreationTime>Tue, 05 Jan 2021 10:00:00 GMT</M:Win32CreationTime>' +
        '<M:Win32LastModifiedTime>Wed, 06 Jan 2021 10:00:00 GMT</M:Win32LastModifiedTime>' +
        '<M:Win32FileAttributes>00000020</M:Win32FileAttributes>'
      t.notMatch((await send('PROPPATCH', '/times', {}, proppatch(windows))).body, /HTTP\/1.1 4/)
      t.equal(await modified(), 'Wed, 06 Jan 2021 10:00:00 GMT')
      const asked =
        '<w:Win32CreationTime xmlns:w="urn:schemas-microsoft-com:"/>' +
        '<w:Win32LastModifiedTime xmlns:w="urn:schemas-microsoft-com:"/>'
      const { body } = await send('PROPFIND', '/times', { depth: '0' }, propfind(asked))
      t.same(texts(body, 'Win32CreationTime'), ['Tue, 05 Jan 2021 10:00:00 GMT'])
      t.same(texts(body, 'Win32LastModifiedTime'), ['Wed, 06 Jan 2021 10:00:00 GMT'])
      await send('PROPPATCH', '/times', {}, proppatch('<D:lastmodified>1500000000</D:lastmodified>'))
      t.equal(await modified(), 'Fri, 14 Jul 2017 02:40:00 GMT')
      await send(
        'PROPPATCH',
        '/times',
        {},
        proppatch('<D:getlastmodified>Tue, 05 Jan 2021 10:00:00 GMT</D:getlastmodified>'),
      )
      t.equal(await modified(), 'Tue, 05 Jan 2021 10:00:00 GMT')
    })

    await t.test(
      'a time that cannot be stored is refused by PROPPATCH, and not reported as stored by PUT',
      async (t) => {
        // Local: ext4 and others end in the year 2446 or before. Memory stores any.
        const late = '<D:getlastmodified>Tue, 05 Jan 9021 10:00:00 GMT</D:getlastmodified>'
        await send('PUT', '/late', { 'x-oc-mtime': '1500000000' }, 'x')
        // By PROPFIND: Last-Modified is never in the future.
        const modified = async (path = '/late') =>
          texts((await send('PROPFIND', path, { depth: '0' })).body, 'getlastmodified')[0]
        const { body } = await send('PROPPATCH', '/late', {}, proppatch(`${late}<p xmlns="urn:p">1</p>`))
        const isKept = (await modified())?.includes('9021') === true
        if (driver === 'Local' && !isKept) {
          t.same(texts(body, 'status'), ['HTTP/1.1 403 Forbidden', 'HTTP/1.1 424 Failed Dependency'])
          t.equal(await modified(), 'Fri, 14 Jul 2017 02:40:00 GMT', 'unchanged')
          t.notMatch((await send('PROPFIND', '/late', { depth: '0' })).body, /urn:p/)
        } else {
          t.same(texts(body, 'status'), ['HTTP/1.1 200 OK'])
          t.ok(isKept)
        }
        for (const time of ['NaN', 'yesterday', 'Tue, 99 Foo 2020']) {
          const refused = await send(
            'PROPPATCH',
            '/late',
            {},
            proppatch(`<D:getlastmodified>${time}</D:getlastmodified>`),
          )
          t.match(refused.body, /403 Forbidden/)
        }
        for (const time of ['99999999999', '-99999999999', '1500000000000', '9'.repeat(400)]) {
          const { status, headers } = await send('PUT', `/at-${time.slice(0, 20)}`, { 'x-oc-mtime': time }, 'content')
          t.equal(status, 201)
          const told = await modified(`/at-${time.slice(0, 20)}`)
          const wanted = new Date(Number(time) * 1000)
          const isStored = !Number.isNaN(wanted.getTime()) && told === wanted.toUTCString()
          t.equal(headers['x-oc-mtime'], isStored ? 'accepted' : undefined, `${time}: ${told}`)
          t.equal((await send('GET', `/at-${time.slice(0, 20)}`)).body, 'content')
        }
        t.equal((await send('PUT', '/late', { 'x-oc-mtime': '1500000001' }, 'x')).headers['x-oc-mtime'], 'accepted')
      },
    )

    await t.test('what clients send beside the RFCs is accepted as by other servers', async (t) => {
      await send('MKCOL', '/lenient')
      await send('PUT', '/lenient/%C3%A9', {}, 'x')
      const locked = await send('LOCK', '/lenient/%C3%A9', { timeout: 'later' }, lockinfo('exclusive'))
      t.match(locked, { status: 200, body: /<D:timeout>Second-3600</ })
      const token = tokenOf(locked).slice(1, -1)
      t.equal((await send('UNLOCK', '/lenient/%C3%A9', { 'lock-token': token })).status, 204)
      const latin = `<?xml version="1.0" encoding="iso-8859-1"?>${proppatch('<p xmlns="urn:p">é</p>')}`
      t.match(await send('PROPPATCH', '/lenient/%C3%A9', {}, Buffer.from(latin, 'latin1')), {
        status: 207,
        body: /200 OK/,
      })
      t.same(
        texts((await send('PROPFIND', '/lenient/%C3%A9', { depth: '0' }, propfind('<p xmlns="urn:p"/>'))).body, 'p'),
        ['é'],
      )
      t.equal((await send('COPY', '/lenient', { depth: '1', destination: `${base}/copied` })).status, 201)
      t.equal((await send('GET', '/copied/%C3%A9')).body, 'x')
      t.equal((await send('MOVE', '/copied', { depth: '1', destination: `${base}/moved` })).status, 201)
      t.equal((await send('GET', '/moved/%C3%A9')).body, 'x')
    })

    await t.test('MKCOL creates one folder, without parents', async (t) => {
      t.equal((await send('MKCOL', '/made')).status, 201)
      t.equal((await send('MKCOL', '/made')).status, 405)
      t.equal((await send('MKCOL', '/put.txt')).status, 405)
      t.equal((await send('MKCOL', '/missing/folder')).status, 409)
      t.equal((await send('MKCOL', '/bodied', {}, '<x/>')).status, 415)
      t.equal((await send('GET', '/bodied')).status, 404)
    })

    await t.test('COPY and MOVE accept a Destination on this site only', async (t) => {
      await send('PUT', '/from', {}, 'content')
      const { host } = new URL(running.davUrl)
      t.equal((await send('COPY', '/from', { destination: `https://${host}${base}/to` })).status, 201)
      t.equal((await send('COPY', '/from', { destination: `${base}/to` })).status, 204)
      t.equal((await send('COPY', '/from', { destination: `${base}/to`, overwrite: 'F' })).status, 412)
      t.equal((await send('MOVE', '/from', { destination: `${base}/missing/to` })).status, 409)
      t.equal((await send('MOVE', '/from', { destination: `${base}/from` })).status, 403)
      t.equal((await send('MOVE', '/made', { destination: `${base}/made/in/itself` })).status, 403)
      t.equal((await send('MOVE', '/from', { destination: 'http://else.example/dav/to' })).status, 502)
      t.equal((await send('MOVE', '/from', { destination: '/elsewhere' })).status, 502)
      t.equal((await send('MOVE', '/from')).status, 400)
      t.equal((await send('MOVE', '/from', { destination: `${base}/to` })).status, 204)
      t.equal((await send('GET', '/from')).status, 404)
      t.equal((await send('GET', '/to')).body, 'content')
    })

    await t.test('DELETE removes a whole tree, and rejects depth 0', async (t) => {
      await send('MKCOL', '/gone')
      await send('PUT', '/gone/file', {}, 'x')
      t.equal((await send('DELETE', '/gone', { depth: '0' })).status, 400)
      t.equal((await send('DELETE', '/gone/')).status, 204)
      t.equal((await send('DELETE', '/gone/')).status, 404)
    })

    await t.test('a lock blocks changes without its token until UNLOCK', async (t) => {
      const locked = await send('LOCK', '/locked', { timeout: 'Second-100' }, lockinfo('exclusive'))
      t.equal(locked.status, 201)
      const token = tokenOf(locked)
      t.match(locked.body, /<D:timeout>Second-100<\/D:timeout>/)
      t.match(locked.body, /mailto:someone/)
      t.match(locked.body, `<D:lockroot><D:href>${base}/locked</D:href></D:lockroot>`)
      const refused = await send('PUT', '/locked', {}, 'x')
      t.equal(refused.status, 423)
      t.match(refused.body, `<D:lock-token-submitted><D:href>${base}/locked</D:href></D:lock-token-submitted>`)
      t.match(await send('LOCK', '/locked', {}, lockinfo('shared')), { status: 423, body: /no-conflicting-lock/ })
      t.equal((await send('PUT', '/locked', { if: `(${token})` }, 'x')).status, 204)
      t.equal((await send('PUT', '/other', { if: `<${base}/locked> (${token})` }, 'x')).status, 201)
      t.equal((await send('PUT', '/locked', { if: '(<urn:uuid:none>)' }, 'x')).status, 412)
      t.equal((await send('PUT', '/locked', { if: '(<urn:uuid:none>) (Not <DAV:no-lock>)' }, 'x')).status, 423)
      const refreshed = await send('LOCK', '/locked', { if: `(${token})`, timeout: 'Second-200' })
      t.match(refreshed, { status: 200, body: /Second-200/ })
      t.equal((await send('UNLOCK', '/locked', { 'lock-token': '<urn:uuid:none>' })).status, 409)
      t.equal((await send('UNLOCK', '/locked')).status, 400)
      t.equal((await send('UNLOCK', '/locked', { 'lock-token': token })).status, 204)
      t.equal((await send('PUT', '/locked', {}, 'y')).status, 204)
    })

    await t.test('a locked member blocks DELETE and MOVE of its tree, and is reported', async (t) => {
      await send('MKCOL', '/tree')
      await send('PUT', '/tree/locked', {}, 'x')
      const token = tokenOf(await send('LOCK', '/tree/locked', {}, lockinfo('exclusive')))
      for (const [method, headers] of [
        ['DELETE', {}],
        ['MOVE', { destination: `${base}/moved` }],
      ] as const) {
        const { status, body } = await send(method, '/tree', headers)
        t.equal(status, 207, method)
        t.same(texts(body, 'status'), ['HTTP/1.1 423 Locked'])
        t.equal(texts(body, 'href')[0], `${base}/tree/locked`)
      }
      t.equal((await send('DELETE', '/tree', { if: `<${base}/tree/locked> (${token})` })).status, 204)
    })

    await t.test('shared locks do not conflict; a deep one covers the members', async (t) => {
      await send('MKCOL', '/shared')
      await send('PUT', '/shared/file', {}, 'x')
      const first = await send('LOCK', '/shared', {}, lockinfo('shared'))
      const second = await send('LOCK', '/shared', { depth: 'infinity' }, lockinfo('shared'))
      t.same([first.status, second.status], [200, 200])
      t.equal((await send('LOCK', '/shared/file', { depth: '0' }, lockinfo('exclusive'))).status, 423)
      t.equal((await send('PUT', '/shared/file', {}, 'y')).status, 423)
      t.equal((await send('PUT', '/shared/file', { if: `<${base}/shared> (${tokenOf(first)})` }, 'y')).status, 204)
      const { body } = await send('PROPFIND', '/shared', { depth: '1' }, propfind('<D:lockdiscovery/>'))
      t.equal(find(parseXml(body), 'activelock').length, 4)
      for (const lock of [first, second]) {
        t.equal((await send('UNLOCK', '/shared', { 'lock-token': tokenOf(lock) })).status, 204)
      }
    })

    await t.test('malformed requests are answered with 400, and later ones succeed', async (t) => {
      const malformed: [string, string, Record<string, string>, string?][] = [
        ['GET', '/%zz', {}],
        ['GET', '/a%2fb', {}],
        ['GET', '/a%00b', {}],
        ['GET', '/../../etc/passwd', {}],
        ['DELETE', '/put.txt#part', {}],
        ['COPY', '/put.txt', { destination: '/%zz' }],
        ['PUT', '/put.txt', { if: 'garbage' }],
        ['DELETE', '/put.txt', { if: '(<urn:x' }],
        ['PUT', '/put.txt', { 'if-match': 'bare' }],
        ['PROPFIND', '/', { depth: '7' }],
        ['COPY', '/put.txt', { destination: `${base}/x`, overwrite: 'perhaps' }],
        ['UNLOCK', '/put.txt', { 'lock-token': '<bare' }],
        ['PROPFIND', '/', { depth: '0' }, '<D:propfind xmlns:D="DAV:"><D:prop>'],
        ['PROPFIND', '/', { depth: '0' }, '<!DOCTYPE x [<!ENTITY y "z">]><x>&y;</x>'],
        ['PROPFIND', '/', { depth: '0' }, '<a>'.repeat(10_000)],
        ['PROPPATCH', '/put.txt', {}, ''],
        ['LOCK', '/put.txt', {}, '<x/>'],
      ]
      for (const [method, path, headers, body] of malformed) {
        t.equal((await send(method, path, headers, body)).status, 400, `${method} ${path} ${JSON.stringify(headers)}`)
      }
      t.equal((await send('PROPFIND', '/', { depth: '0' }, ' '.repeat(2_000_000))).status, 413)
      t.equal((await send('PATCH', '/put.txt')).status, 405)
      t.match(await send('REPORT', '/put.txt'), { status: 501, headers: { allow: /PROPFIND/ } })
      t.equal((await send('GET', '/put.txt')).body, 'two')
    })

    await t.test('a rejected upload gets its response with every way of sending', async (t) => {
      const refused = await sender(running, { authorization: '' })('PUT', '/refused', {}, Buffer.alloc(5_000_000))
      t.equal(refused.status, 401)
      t.equal((await send('GET', '/refused')).status, 404)
    })

    await t.test('an interrupted upload does not change the existing file', async (t) => {
      await send('PUT', '/whole', {}, 'old')
      const { hostname, port } = new URL(running.davUrl)
      const basic = Buffer.from(`admin:${running.adminPassword}`).toString('base64')
      await new Promise<void>((resolve) => {
        const socket = connect(Number(port), hostname, () => {
          const head = `PUT ${base}/whole HTTP/1.1\r\nHost: x\r\nAuthorization: Basic ${basic}\r\nContent-Length: 1000\r\n\r\nnew`
          socket.write(head, () => setTimeout(() => socket.destroy(), 100))
        })
        socket.on('close', () => setTimeout(resolve, 100))
      })
      t.equal((await send('GET', '/whole')).body, 'old')
      const names = await send('PROPFIND', '/', { depth: '1' }, propfind('<D:displayname/>'))
      t.notMatch(names.body, /tidegate-|\.tmp|\.part/)
    })

    await t.test('a long listing, which is sent in chunks, has each entry once', async (t) => {
      await send('MKCOL', '/many')
      for (let at = 0; at < 600; at += 30) {
        await Promise.all(Array.from({ length: 30 }, (_, index) => send('PUT', `/many/${at + index}`, {}, '')))
      }
      const { status, headers, body } = await send('PROPFIND', '/many', { depth: '1' })
      t.equal(status, 207)
      t.equal(headers['transfer-encoding'], 'chunked')
      t.equal(new Set(texts(body, 'href')).size, 601)
    })
  })
}
