/** Generates the OpenAPI 3.1 document from the declarations of the endpoints. */
import type { z } from 'zod'
import { version } from '../../../src/base/version.js'
import { tags, type Audience, type BodyContent, type EndpointDescription, type Refusal } from './endpoint.js'
import { errorNames } from './errors.js'
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
  readonly components: { readonly schemas: Components; readonly securitySchemes: Readonly<Record<string, object>> }
}

const about = `One tree of mounted storages, over the API of the AList / OpenList family.

Responses below \`/api\` are an envelope of \`code\`, \`message\` and \`data\`. The HTTP status is always 200. Code 200 is success. \
Any other code is an error: \`error\` is its name, and \`message\` the reason. In the listed messages \`…\` is a placeholder for \
variable text.

If \`Accept\` names \`application/problem+json\`, an error is a problem document (RFC 9457) with a real HTTP status instead.

Send the token of a sign-in as the value of the header \`Authorization\`, with or without the prefix \`Bearer\`. A request \
without a token is made as the guest, if that account is enabled.

Send fields as JSON, as a form, or as the query of a GET. Numbers and booleans may also be strings, null counts as absent, \
and unknown fields are ignored.`

/** The document for the endpoints. Its server is `/`; the caller replaces it by the base URL. */
export function openApiDocument(endpoints: readonly EndpointDescription[]): OpenApiDocument {
  const schemas: Components = { ErrorName: errorNameSchema, Problem: problemSchema }
  const paths: Record<string, Record<string, OpenApiOperation>> = {}
  for (const endpoint of endpoints) {
    const item = (paths[endpoint.path] ??= {})
    for (const method of documentedMethods(endpoint)) item[method] = operation(endpoint, method, schemas)
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
    components: {
      schemas: Object.fromEntries(Object.entries(schemas).sort(([one], [other]) => (one < other ? -1 : 1))),
      securitySchemes: {
        token: {
          type: 'apiKey',
          in: 'header',
          name: 'Authorization',
          description: 'The token of a sign-in, without a prefix.',
        },
        bearer: { type: 'http', scheme: 'bearer', description: 'The same token, as in RFC 6750.' },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: sessionCookieName,
          description: 'The cookie of a sign-in to the console. Ignored in requests from pages of other origins.',
        },
      },
    },
  }
}

/** The methods to document. For `any`, the two that clients use. */
export function documentedMethods({ method }: EndpointDescription): readonly ('get' | 'post' | 'put')[] {
  return method === 'any' ? ['get', 'post'] : [method]
}

function operation(
  endpoint: EndpointDescription,
  method: 'get' | 'post' | 'put',
  schemas: Components,
): OpenApiOperation {
  const { access, content, description, fields, headers, params, query, summary, tag } = endpoint
  const parameters = [
    ...parametersOf(params, 'path', schemas),
    ...parametersOf(query, 'query', schemas),
    ...(method === 'get' ? parametersOf(fields, 'query', schemas) : []),
    ...parametersOf(headers, 'header', schemas),
  ]
  const id = operationId(endpoint, method)
  const body = method === 'get' ? undefined : (contentBody(content) ?? fieldsBody(endpoint, id, schemas))
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(description !== undefined && { description }),
    'x-access': access,
    security: securityOf(endpoint),
    ...(parameters.length > 0 && { parameters }),
    ...(body !== undefined && { requestBody: body }),
    responses: responsesOf(endpoint, schemas),
    ...(endpoint.plain === undefined && { 'x-refusals': refusalsOf(endpoint) }),
  }
}

function operationId({ method: declared, path }: EndpointDescription, method: string): string {
  const name = path
    .replace(/^\/api/, '')
    .replace(/[^a-z0-9]+/gi, '_')
    .replace(/^_|_$/g, '')
  return declared === 'any' && method === 'get' ? `${name}_by_query` : name
}

function securityOf({ access, readsToken = false }: EndpointDescription): OpenApiOperation['security'] {
  const signedIn = [{ token: [] }, { bearer: [] }, { session: [] }]
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
  const bytes: JsonSchema = { contentMediaType: 'application/octet-stream' }
  const schema: JsonSchema =
    part === undefined ? {} : { type: 'object', properties: { [part]: bytes }, required: [part] }
  return { required: true, description, content: { [type]: { schema } } }
}

function fieldsBody(
  { fields, listField }: EndpointDescription,
  id: string,
  schemas: Components,
): OpenApiOperation['requestBody'] {
  if (fields === undefined) return undefined
  const schema = requestSchema(fields, schemas)
  const name = componentName(id)
  schemas[name] = schema
  const reference: JsonSchema = { $ref: `#/components/schemas/${name}` }
  const list = listField === undefined ? undefined : schema.properties?.[listField]
  const json: JsonSchema = list === undefined ? reference : { anyOf: [list, reference] }
  const isForm = Object.values(schema.properties ?? {}).every(fitsForm)
  return {
    required: (schema.required ?? []).length > 0,
    content: {
      'application/json': { schema: json },
      ...(isForm && {
        'application/x-www-form-urlencoded': { schema: reference },
        'multipart/form-data': { schema: reference },
      }),
    },
  }
}

/** Whether a form can hold a field of this schema: a single value or a list of strings. */
function fitsForm({ type, items }: JsonSchema): boolean {
  return type !== 'object' && (type !== 'array' || items?.type === 'string')
}

/** Converts an operation id into a component name: `fs_batch_rename` becomes `FsBatchRenameFields`. */
function componentName(id: string): string {
  return `${id.replace(/(?:^|_)([a-z0-9])/g, (_match, letter: string) => letter.toUpperCase())}Fields`
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
  const data: JsonSchema = endpoint.data === undefined ? { type: 'null' } : responseSchema(endpoint.data, schemas)
  const refusals = refusalsOf(endpoint)
  const codes = [...new Set(refusals.map(({ code }) => code))]
  const names = [...new Set(refusals.map(({ error }) => error))].sort()
  const refusal = envelope({ enum: codes }, refusalDataSchema(endpoint.refusalData?.schema, schemas), {
    type: 'string',
    enum: names,
  })
  return {
    200: {
      description: 'The result, or an error: see `code`.',
      content: { 'application/json': { schema: { oneOf: [envelope({ const: 200 }, data), refusal] } } },
    },
    default: {
      description: 'The error, if `Accept` names problem documents.',
      content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
    },
  }
}

/** `error`: the schema of the name, in an error. */
function envelope(code: JsonSchema, data: JsonSchema, error?: JsonSchema): JsonSchema {
  return {
    type: 'object',
    properties: {
      code: { type: 'integer', ...code },
      message: { type: 'string' },
      data,
      ...(error !== undefined && { error }),
    },
    required: ['code', 'message', 'data', ...(error === undefined ? [] : ['error'])],
  }
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

/** The schema of `data` in errors. It may be null, because errors of authentication have no data. */
function refusalDataSchema(data: z.ZodType | undefined, schemas: Components): JsonSchema {
  return data === undefined ? { type: 'null' } : { anyOf: [responseSchema(data, schemas), { type: 'null' }] }
}
