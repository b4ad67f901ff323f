/** The OpenAPI document is valid and describes exactly the routes of the API; undeclared responses are detected. */
import { BlockList } from 'node:net'
import type { Layer } from '@koa/router'
import { Validator } from '@seriousme/openapi-schema-validator'
import t from 'tap'
import { documentedEndpoints, endpoints } from '../../../../protocols/http/endpoints.js'
import { openApiDocument, type OpenApiDocument } from '../../../../protocols/http/api/openapi.js'
import type { JsonSchema } from '../../../../protocols/http/api/json-schema.js'
import { apiRoutes, httpApi } from '../../../../protocols/http/server.js'
import { version } from '../../../../src/base/version.js'
import { assertDeclared, matchesRefusal } from '../declared.js'
import { serve } from '../served.js'

const document = openApiDocument(documentedEndpoints)

void t.test('the document is valid OpenAPI 3.1', async (t) => {
  const validator = new Validator()
  t.same(await validator.validate({ ...structuredClone(document) }), { valid: true })
  t.equal(validator.version, '3.1')
  t.equal(`v${String(document.info.version)}`, version)
})

void t.test('the document has exactly the routes of the router', async (t) => {
  const { gateway } = await serve(t)
  const routers = apiRoutes(httpApi(gateway, { trustedProxies: new BlockList(), siteUrl: '' }))
  const stack = [...routers.values()].flatMap((routes) => routes.stack)
  const pathOf = (layer: Layer) => String(layer.path).replace(/:(\w+)/g, '{$1}')
  const routed = stack.flatMap((layer: Layer) => layer.methods.map((method) => `${method} ${pathOf(layer)}`))
  const shareLinks = ['GET /sd/{id}', 'GET /sd/{id}/{path}', 'POST /sd/{id}', 'PUT /sd/{id}/{path}']
  const links = ['GET /d/{path}', 'GET /p/{path}', ...shareLinks]
  const told = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
  )
  for (const operation of told.filter((each) => !links.includes(each))) {
    t.ok(routed.includes(operation), `${operation} has a route`)
  }
  for (const layer of stack as Layer[]) {
    // GET includes HEAD (RFC 9110 §9.3.2). A route of any method is documented by the one that clients use.
    const methods = layer.methods.filter((name) => name !== 'HEAD')
    const documented = methods.filter((method) => told.includes(`${method} ${pathOf(layer)}`))
    t.same(documented.length, layer.methods.includes('DELETE') ? 1 : methods.length, `${pathOf(layer)} is documented`)
  }
  for (const link of links) t.ok(told.includes(link), link)
})

void t.test('every operation is listed once, with a tag that has a description', async (t) => {
  const operations = Object.values(document.paths).flatMap((item) => Object.values(item))
  const ids = operations.map(({ operationId }) => operationId)
  t.equal(new Set(ids).size, ids.length)
  t.equal(ids.length, documentedEndpoints.length)
  t.equal(new Set(endpoints.map(({ path, method }) => `${method} ${path}`)).size, endpoints.length)
  const tags = document.tags.map(({ name }) => name)
  for (const operation of operations) t.ok(tags.includes(operation.tags[0] ?? ''), operation.operationId)
})

void t.test('references have targets, and internal metadata is removed', async (t) => {
  const text = JSON.stringify(document)
  for (const [, name = ''] of text.matchAll(/"\$ref":"#\/components\/schemas\/([^"]*)"/g)) {
    t.ok(document.components.schemas[name], name)
  }
  t.notMatch(text, /"(wire|example|\$defs)":/)
  t.notMatch(text, '#/$defs')
})

void t.test(
  'every object of a body and of a response is a component, so that generated code has a name for it',
  (t) => {
    const operations = Object.values(document.paths).flatMap((item) => Object.values(item))
    for (const { operationId, requestBody, responses, 'x-refusals': refusals } of operations) {
      const json = requestBody?.content['application/json']
      if (json !== undefined) {
        t.same(Object.keys(requestBody?.content ?? {}), ['application/json'], operationId)
        t.equal(requestBody?.required, true, operationId)
        t.ok(component(json.schema).properties, operationId)
      }
      if (refusals === undefined) continue
      const [success, failure, ...others] = responses['200']?.content?.['application/json']?.schema?.oneOf ?? []
      t.same(component(success).properties?.code, { type: 'integer', const: 200 }, operationId)
      t.notOk(component(failure).properties?.code?.enum?.includes(200), operationId)
      t.same(others, [])
    }
    for (const [name, schema] of Object.entries(document.components.schemas)) {
      for (const { properties } of within(schema)) t.equal(properties, undefined, name)
    }
    t.end()
  },
)

/** The schema that a component has. */
function component(schema: JsonSchema | undefined): JsonSchema {
  return document.components.schemas[schema?.$ref?.replace('#/components/schemas/', '') ?? ''] ?? {}
}

/** All schemas below this one. */
function within({ additionalProperties, anyOf = [], items, oneOf = [], properties = {} }: JsonSchema): JsonSchema[] {
  const more = typeof additionalProperties === 'object' ? [additionalProperties] : []
  const inner = [...Object.values(properties), ...anyOf, ...oneOf, ...more, ...(items === undefined ? [] : [items])]
  return inner.flatMap((schema) => [schema, ...within(schema)])
}

void t.test('an operation lists the names of its errors, and the document all of them', async (t) => {
  const { schemas } = document.components
  const all = schemas.ErrorName?.enum ?? []
  for (const item of Object.values(document.paths)) {
    for (const { operationId, responses, 'x-refusals': refusals } of Object.values(item)) {
      if (refusals === undefined) continue
      const [, failure] = responses['200']?.content?.['application/json']?.schema?.oneOf ?? []
      const { properties } = component(failure)
      t.same(properties?.error, { $ref: '#/components/schemas/ErrorName' }, operationId)
      for (const { code, error } of refusals) {
        t.ok(properties?.code?.enum?.includes(code), `${operationId} ${code}`)
        t.ok(all.includes(error), error)
      }
      t.ok(responses.default?.content?.['application/problem+json'], operationId)
    }
  }
})

void t.test('schemas of fields are in their simplest form', async (t) => {
  const { schemas } = document.components
  t.strictSame(schemas.FsListFields?.properties?.page, { type: 'integer', default: 1, description: 'Counted from 1.' })
  t.match(schemas.FsMoveFields?.properties, {
    names: { type: 'array', items: { type: 'string' } },
    overwrite: { type: 'boolean', default: false },
  })
  t.strictSame(schemas.AuthLoginFields?.required, ['username'])
  t.strictSame(schemas.AdminUserUpdateFields?.properties?.disabled, { type: 'boolean' })
})

void t.test('headers of uploads are parameters with their canonical names', async (t) => {
  const parameters = document.paths['/api/fs/put']?.put?.parameters ?? []
  t.same(parameters.map(({ in: place, name }) => `${place} ${name}`).sort(), [
    'cookie browser-password',
    'header As-Task',
    'header File-Path',
    'header If-Match',
    'header If-None-Match',
    'header Last-Modified',
    'header Overwrite',
    'header Password',
    'header X-File-Md5',
    'header X-File-Sha1',
    'header X-File-Sha256',
    'header X-File-Size',
  ])
  t.match(
    parameters.filter(({ required }) => required).map(({ name }) => name),
    ['File-Path'],
  )
})

void t.test("the document is served without a token, with the client's address", async (t) => {
  const { url } = await serve(t, '/sub')
  const response = await fetch(`${url}/api/openapi.json`)
  t.equal(response.headers.get('content-type'), 'application/json; charset=utf-8')
  const served = (await response.json()) as OpenApiDocument
  t.strictSame(served, { ...document, servers: [{ url }] })
})

void t.test('assertDeclared() throws for an undeclared response', async (t) => {
  const told = (code: number, message: string, data: unknown = null, error?: string) => ({
    code,
    message,
    data,
    ...(error !== undefined && { error }),
  })
  const get = (answer: Parameters<typeof assertDeclared>[2]) => () => {
    assertDeclared('GET', '/api/admin/driver/info?driver=x', answer)
  }
  t.doesNotThrow(get(told(404, 'driver [x] not found', null, 'driver_unknown')))
  t.doesNotThrow(get(told(403, 'You are not an admin', null, 'admins_only')))
  t.throws(get(told(403, 'You are not an admin', null, 'denied')), /has the name denied, not one of admins_only/)
  t.throws(get(told(404, 'driver [x] not found!')), /is not among its own/)
  t.throws(get(told(418, 'driver [x] not found')), /is not among its own/)
  t.throws(get(told(404, 'driver [x] not found', {}, 'driver_unknown')), /carries/)
  t.throws(get(told(200, 'success')), /otherwise than declared/)
  const names = (data: unknown, error?: string) => () => {
    assertDeclared('GET', '/api/me/sshkey/list', told(200, 'success', data, error))
  }
  t.doesNotThrow(names({ content: [], total: 0 }))
  t.throws(names({ content: [], total: 0 }, 'internal'), /a success has the name internal/)
  t.throws(names({ content: [], total: 0, more: 1 }), /fields of its own/)
})

void t.test('an ellipsis in the declared text of an error matches any text', async (t) => {
  const fits = (text: string, message: string) => matchesRefusal(message, { text })
  t.ok(fits('file […] exists', 'file [a [b] c] exists'))
  t.notOk(fits('file […] exists', 'file [a] exists already'))
  t.ok(fits('… in place', 'move in place'))
  t.ok(fits('…', ''))
  t.ok(fits('… is illegal: …', 'a is illegal: b is illegal: c'))
  t.notOk(fits('ab…bc', 'abc'))
  t.notOk(fits('plain', 'plain!'))
})
