/** Generates the OpenAPI 3.1 document from the declarations of the endpoints. */
import type { z } from 'zod'
import { maxNameLength } from '../../../src/base/path.js'
import { version } from '../../../src/base/version.js'
import { tags, type Audience, type BodyContent, type EndpointDescription, type Refusal } from './endpoint.js'
import { errorNames } from './errors.js'
import { bodyLimit, valueLimit } from './fields.js'
import { responseSchema, requestSchema, type Components, type JsonSchema } from './json-schema.js'
import { refusalsOf } from './refusals.js'
import { sessionCookieName } from './session-cookie.js'

type Location = 'query' | 'header' | 'path' | 'cookie'

interface Parameter {
  readonly name: string
  readonly in: Location
  readonly required: boolean
  readonly description?: string
  readonly schema: JsonSchema
}

type Media = Readonly<Record<string, { readonly schema?: JsonSchema }>>

export interface OpenApiOperation {
  readonly operationId: string
  readonly tags: readonly string[]
  readonly summary: string
  readonly description?: string
  readonly security: readonly Readonly<Record<string, readonly string[]>>[]
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly required: boolean; readonly description?: string; readonly content: Media }
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: Media }>>
  /** Extensions: who may call, and the errors with their messages and names. */
  readonly 'x-access': Audience
  readonly 'x-refusals'?: readonly Refusal[]
}

export interface OpenApiDocument {
  readonly openapi: '3.1.0'
  readonly info: Readonly<Record<string, unknown>> & { readonly title: string; readonly description: string }
  readonly servers: readonly { readonly url: string }[]
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, OpenApiOperation>>>>
  /** Extension: the size in bytes and the number of values of a body with fields, and the length of a name in bytes. */
  readonly 'x-limits': Readonly<Record<'bodySize' | 'bodyValues' | 'nameLength', number>>
  readonly components: { readonly schemas: Components; readonly securitySchemes: Readonly<Record<string, object>> }
}

const about = `One tree of mounted storages, over the API of the AList / OpenList family.

Responses below \`/api\` are an envelope of \`code\`, \`message\` and \`data\`. The HTTP status is always 200. Code 200 is success. \
Any other code is a \`Failure\`: \`error\` is its name, and \`message\` the reason. In the listed messages \`…\` is a placeholder \
for variable text.

If \`Accept\` names \`application/problem+json\`, an error is a problem document (RFC 9457) with a real HTTP status instead.

Send the token of a sign-in as the value of the header \`Authorization\`, with or without the prefix \`Bearer\`. A request \
without a token is made as the guest, if that account is enabled.

Send fields as JSON. A form (\`application/x-www-form-urlencoded\` or \`multipart/form-data\`) is accepted too, where each field is \
a single value or a list of strings. Numbers and booleans may also be strings, null counts as absent, and unknown fields are \
ignored.`

/** What the document says of endpoints of any method with fields. */
const byQuery = 'GET, with the fields in the query, is accepted too.'

/** The document for the endpoints. Its server is `/`; the caller replaces it by the base URL. */
export function openApiDocument(endpoints: readonly EndpointDescription[]): OpenApiDocument {
  const schemas: Components = { ...envelopeSchemas(endpoints), ErrorName: errorNameSchema, Problem: problemSchema }
  const paths: Record<string, Record<string, OpenApiOperation>> = {}
  for (const endpoint of endpoints) {
    const item = (paths[endpoint.path] ??= {})
    item[documentedMethod(endpoint)] = operation(endpoint, schemas)
  }
  const used = new Set(endpoints.map(({ tag }) => tag))
  return {
    openapi: '3.1.0',
    info: {
      title: 'Tidegate',
      version: version.slice(1),
      description: about,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    tags: Object.entries(tags)
      .map(([name, description]) => ({ name, description }))
      .filter(({ name }) => (used as ReadonlySet<string>).has(name)),
    paths,
    'x-limits': { bodySize: bodyLimit, bodyValues: valueLimit, nameLength: maxNameLength },
    components: {
      schemas: Object.fromEntries(Object.entries(schemas).sort(([one], [other]) => (one < other ? -1 : 1))),
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'The token of a sign-in, as in RFC 6750.' },
        token: {
          type: 'apiKey',
          in: 'header',
          name: 'Authorization',
          description: 'The same token, without a prefix.',
        },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: sessionCookieName,
          description:
            'The cookie of a sign-in to the console. At a port that is not the default one its name is followed by ' +
            '`_PORT`. Ignored in requests from pages of other origins.',
        },
      },
    },
  }
}

/** The method to document. For `any`, the one that clients use: POST for a body with fields. */
export function documentedMethod({ fields, method }: EndpointDescription): 'get' | 'post' | 'put' {
  if (method !== 'any') return method
  return fields === undefined ? 'get' : 'post'
}

function operation(endpoint: EndpointDescription, schemas: Components): OpenApiOperation {
  const { access, content, fields, headers, method, params, query, summary, tag } = endpoint
  const isGet = documentedMethod(endpoint) === 'get'
  const parameters = [
    ...parametersOf(params, 'path', schemas),
    ...parametersOf(query, 'query', schemas),
    ...(isGet ? parametersOf(fields, 'query', schemas) : []),
    ...parametersOf(headers, 'header', schemas),
  ]
  const description = [endpoint.description, method === 'any' && !isGet ? byQuery : undefined]
    .filter((text) => text !== undefined)
    .join(' ')
  const body = isGet ? undefined : (contentBody(content) ?? fieldsBody(endpoint, schemas))
  return {
    operationId: operationId(endpoint),
    tags: [tag],
    summary,
    ...(description !== '' && { description }),
    'x-access': access,
    security: securityOf(endpoint),
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && { requestBody: body }),
    responses: responsesOf(endpoint, schemas),
    ...(endpoint.plain === undefined && { 'x-refusals': refusalsOf(endpoint) }),
  }
}

function operationId({ path, operation = path }: EndpointDescription): string {
  return operation
    .replace(/^\/api/, '')
    .replace(/[^a-z0-9]+/gi, '_')
    .replace(/^_|_$/g, '')
}

function securityOf({ access, readsToken = false }: EndpointDescription): OpenApiOperation['security'] {
  const signedIn = [{ bearer: [] }, { token: [] }, { session: [] }]
  if (access === 'anybody') return readsToken ? [...signedIn, {}] : []
  return access === 'guest' ? [...signedIn, {}] : signedIn
}

function parametersOf(schema: z.ZodType | undefined, location: Location, schemas: Components): readonly Parameter[] {
  if (schema === undefined) return []
  const { properties = {}, required = [] } = requestSchema(schema, schemas)
  return Object.entries(properties).map(([name, { cookie, description, ...property }]) => ({
    name: cookie ?? (location === 'header' ? headerName(name) : name),
    in: cookie === undefined ? location : 'cookie',
    required: required.includes(name),
    ...(description !== undefined && { description }),
    schema: property,
  }))
}

/** Capitalizes a header name: `x-file-md5` becomes `X-File-Md5`. */
function headerName(name: string): string {
  return name.replace(/(?<=^|-)[a-z]/g, (letter) => letter.toUpperCase())
}

function contentBody(content: BodyContent | undefined): OpenApiOperation['requestBody'] {
  if (content === undefined) return undefined
  const { description, part, type } = content
  // Generators know this form, of OpenAPI 3.0, as the content of a file.
  const bytes: JsonSchema = { type: 'string', format: 'binary' }
  const schema: JsonSchema =
    part === undefined ? bytes : { type: 'object', properties: { [part]: bytes }, required: [part] }
  return { required: true, description, content: { [type]: { schema } } }
}

function fieldsBody(endpoint: EndpointDescription, schemas: Components): OpenApiOperation['requestBody'] {
  if (endpoint.fields === undefined) return undefined
  const schema = requestSchema(endpoint.fields, schemas)
  return {
    // Without required fields it may be `{}`: a client that sends the type of JSON without a body is refused.
    required: true,
    content: { 'application/json': { schema: component(componentName(endpoint, 'Fields'), schema, schemas) } },
  }
}

/** The name of a component of the endpoint: `FsBatchRenameFields` for the kind `Fields` of `/api/fs/batch_rename`. */
function componentName(endpoint: EndpointDescription, kind: 'Fields' | 'Data' | 'Success' | 'Failure'): string {
  const id = operationId(endpoint)
  return `${id.replace(/(?:^|_)([a-z0-9])/g, (_match, letter: string) => letter.toUpperCase())}${kind}`
}

/** Adds the schema to the components, and returns a reference to it. */
function component(name: string, schema: JsonSchema, schemas: Components): JsonSchema {
  schemas[name] = schema
  return reference(name)
}

function reference(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` }
}

function responsesOf(endpoint: EndpointDescription, schemas: Components): OpenApiOperation['responses'] {
  if (endpoint.plain !== undefined) {
    return Object.fromEntries(
      endpoint.plain.map(({ description, status, types }) => [
        String(status),
        { description, ...(types && { content: Object.fromEntries(types.map((type) => [type, { schema: {} }])) }) },
      ]),
    )
  }
  return {
    200: {
      description: 'The result, or an error: see `code`.',
      content: {
        'application/json': { schema: { oneOf: [successOf(endpoint, schemas), failureOf(endpoint, schemas)] } },
        ...Object.fromEntries((endpoint.otherTypes ?? []).map((type) => [type, { schema: { type: 'string' } }])),
      },
    },
    default: {
      description: 'The error, if `Accept` names problem documents.',
      content: { 'application/problem+json': { schema: reference('Problem') } },
    },
  }
}

function successOf(endpoint: EndpointDescription, schemas: Components): JsonSchema {
  if (endpoint.data === undefined) return reference('Success')
  const data = namedObject(componentName(endpoint, 'Data'), responseSchema(endpoint.data, schemas), schemas)
  return component(componentName(endpoint, 'Success'), envelope({ const: 200 }, data), schemas)
}

/**
 * The error response of an endpoint. Without data of its own it is the common one, so that clients have one type for
 * the errors of all.
 */
function failureOf(endpoint: EndpointDescription, schemas: Components): JsonSchema {
  if (endpoint.refusalData === undefined) return reference('Failure')
  const data = responseSchema(endpoint.refusalData.schema, schemas)
  // Errors of authentication have no data.
  const schema = failure([endpoint], { anyOf: [data, { type: 'null' }] })
  return component(componentName(endpoint, 'Failure'), schema, schemas)
}

/** Makes components of objects: of the schema itself, or of that beside null. */
function namedObject(name: string, schema: JsonSchema, schemas: Components): JsonSchema {
  const { anyOf, description } = schema
  if (schema.type === 'object') return component(name, schema, schemas)
  if (anyOf === undefined) return schema
  return { anyOf: anyOf.map((choice) => namedObject(name, choice, schemas)), ...(description && { description }) }
}

/** The envelopes that endpoints share. */
function envelopeSchemas(endpoints: readonly EndpointDescription[]): Components {
  const enveloped = endpoints.filter(({ plain }) => plain === undefined)
  return { Success: envelope({ const: 200 }, { type: 'null' }), Failure: failure(enveloped, { type: 'null' }) }
}

/** The envelope of the errors of the endpoints. */
function failure(endpoints: readonly EndpointDescription[], data: JsonSchema): JsonSchema {
  const codes = new Set(endpoints.flatMap(refusalsOf).map(({ code }) => code))
  return envelope({ enum: [...codes].sort((one, other) => one - other) }, data, { error: reference('ErrorName') })
}

function envelope(code: JsonSchema, data: JsonSchema, more: Record<string, JsonSchema> = {}): JsonSchema {
  const properties = { code: { type: 'integer', ...code }, message: { type: 'string' }, data, ...more }
  return { type: 'object', properties, required: Object.keys(properties) }
}

const errorNameSchema: JsonSchema = {
  type: 'string',
  enum: [...errorNames],
  description: 'The name of an error.',
}

const problemSchema: JsonSchema = {
  type: 'object',
  description: 'An error as a problem document (RFC 9457).',
  properties: {
    type: { const: 'about:blank' },
    title: { type: 'string', description: 'The phrase of the status.' },
    status: { type: 'integer', description: 'The HTTP status.' },
    detail: { type: 'string', description: 'The `message` of the envelope.' },
    error: { $ref: '#/components/schemas/ErrorName' },
    data: { type: 'object', description: 'The `data` of the envelope, unless it is null.' },
  },
  required: ['type', 'title', 'status', 'detail', 'error'],
}
