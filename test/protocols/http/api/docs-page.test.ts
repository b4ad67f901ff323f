/** The page that documents the API: it is complete and self-contained, with escaped texts and examples for curl. */
import t from 'tap'
import { docsPage } from '../../../../protocols/http/api/docs-page.js'
import { documentedEndpoints } from '../../../../protocols/http/endpoints.js'
import { openApiDocument } from '../../../../protocols/http/api/openapi.js'
import { rawRequest } from '../raw-request.js'
import { serve } from '../served.js'
import { processorTime } from '../../../processor-time.js'

const document = { ...openApiDocument(documentedEndpoints), servers: [{ url: 'http://host' }] }

void t.test('the page describes every operation and schema, each with its own anchor', async (t) => {
  const page = docsPage(document)
  const anchors = [...page.matchAll(/ id="([^"]*)"/g)].map(([, name = '']) => name)
  t.equal(new Set(anchors).size, anchors.length)
  for (const [path, item] of Object.entries(document.paths)) {
    t.ok(page.includes(`</span> ${path}</h3>`), path)
    t.ok(
      Object.values(item).some(({ operationId }) => anchors.includes(operationId)),
      path,
    )
  }
  for (const [, target = ''] of page.matchAll(/href="#([^"]*)"/g)) t.ok(anchors.includes(target), target)
})

void t.test('the page loads no other resources and has no scripts', async (t) => {
  const page = docsPage(document)
  t.notMatch(page, /<(script|link|img|iframe|form)|src=|@import|url\(/)
  t.same([...new Set([...page.matchAll(/href="([^#][^"]*)"/g)].map(([, target]) => target))], ['openapi.json'])
})

void t.test('values that have names are shown with them, and one of them in the examples', async (t) => {
  const page = docsPage(document)
  t.match(
    page,
    '<h3 id="shape-Role">Role</h3>\n<p><code>0</code>, <code>1</code>, <code>2</code>. 0: general, 1: guest',
  )
  t.match(page, '/api/task/upload/undone')
})

void t.test('texts of the document are escaped as HTML', async (t) => {
  const nasty = `<i>"&'`
  const page = docsPage({
    ...document,
    info: { title: nasty, description: `${nasty} \`${nasty}\`` },
    servers: [{ url: `http://x/${nasty}` }],
    tags: [{ name: nasty, description: nasty }],
    paths: {
      [`/${nasty}`]: {
        post: {
          operationId: 'one',
          tags: [nasty],
          summary: nasty,
          'x-access': 'admin',
          security: [],
          parameters: [{ name: nasty, in: 'query', required: true, schema: { type: nasty, examples: [nasty] } }],
          responses: { 200: { description: nasty, content: { [nasty]: {} } } },
        },
      },
    },
    components: {
      schemas: { Shape: { properties: { [nasty]: { enum: [nasty], description: nasty } } } },
      securitySchemes: {},
    },
  })
  t.notMatch(page, /<i>/)
  t.match(page, '&#60;i&#62;')
})

void t.test("the page is served without a token, with the client's address in its examples", async (t) => {
  const { url } = await serve(t)
  const response = await fetch(`${url}/api/docs`)
  t.equal(response.headers.get('content-type'), 'text/html; charset=utf-8')
  t.match(response.headers.get('content-security-policy'), /^default-src 'none'/)
  t.match(await response.text(), `${url}/api/fs/list`)
})

void t.test("the page is not cached by proxies, because it contains the client's address", async (t) => {
  const { url } = await serve(t)
  for (const path of ['/api/docs', '/api/openapi.json']) {
    t.equal((await fetch(url + path)).headers.get('cache-control'), 'private, no-cache', path)
  }
})

void t.test('the page and the document are generated once, and have an entity tag', async (t) => {
  const { url } = await serve(t)
  for (const path of ['/api/docs', '/api/openapi.json']) {
    const read = async (host: string, tag = '') => {
      const { status, headers, body } = await rawRequest(url, { path, headers: { host, 'if-none-match': tag } })
      return { status, tag: String(headers.etag), body }
    }
    const one = await read('one.example')
    const generation = await processorTime(() => docsPage(openApiDocument(documentedEndpoints)), 3)
    const other = await read('other.example:1')
    const requests = await processorTime(async () => {
      for (let count = 0; count < 20; count++) await read('one.example')
    })
    t.ok(requests < 15 * generation, `20 requests: ${requests} ms, one generation: ${generation} ms`)
    t.equal(other.body, one.body.replaceAll('one.example', 'other.example:1'))
    t.match(one.body, 'one.example')
    t.not(one.tag, other.tag)
    t.match(await read('one.example', one.tag), { status: 304, body: '' })
    t.match(await read('other.example:1', one.tag), { status: 200, tag: other.tag })
  }
})

void t.test('examples are complete curl commands', async (t) => {
  const page = docsPage(document)
  const example = (id: string) => /<pre>([^<]*)<\/pre>/.exec(page.slice(page.indexOf(`id="${id}"`)))?.[1]
  const shown = (id: string) => example(id)?.replace(/&#(\d+);/g, (_match, code) => String.fromCharCode(Number(code)))
  t.equal(
    shown('fs_move'),
    `curl 'http://host/api/fs/move' \\
  -H "Authorization: $TOKEN" \\
  -H 'Content-Type: application/json' \\
  -d '{"src_dir":"/folder","dst_dir":"/other","names":["file.txt"]}'`,
  )
  t.match(shown('admin_user_get'), /^curl 'http:\/\/host\/api\/admin\/user\/get\?id=1'/)
  t.match(shown('admin_user_delete'), /^curl -X POST 'http:\/\/host\/api\/admin\/user\/delete\?id=1'/)
  t.match(shown('fs_put'), /^curl 'http:\/\/host\/api\/fs\/put' [^]*-H 'File-Path: \/folder\/file.txt'[^]*-T file.txt$/)
  t.match(shown('fs_form'), /^curl -X PUT 'http:\/\/host\/api\/fs\/form' [^]*-F 'file=@file.txt'$/)
  t.match(shown('d_path'), /^curl 'http:\/\/host\/d\/folder\/file.txt'$/)
})
