/** Parsing and validation of request fields from JSON, forms and queries. */
import type { IncomingMessage } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { Busboy } from '@fastify/busboy'
import type Koa from 'koa'
import { z } from 'zod'
import { toGatewayError } from '../../../src/base/errors.js'
import { ownTurn } from '../../../src/base/pauses.js'
import { decodeUtf8, hasUtf8Escapes, isDecoded } from '../../../src/base/utf8.js'
import { bodySource, withTimeout } from '../../lib/request-body.js'
import { ApiError, badRequest, refused } from './errors.js'
import { bodyTooLarge, emptyBody, malformedForm } from './refusals.js'

/** Characters from which a body is parsed in a turn of its own: many such bodies may arrive in one. */
const largeText = 64 * 1024

type Fields = Readonly<Record<string, unknown>>

/** Default maximum size of a body with fields, in bytes. */
export const bodyLimit = 1024 * 1024
/** Maximum size of the body of a sign-in, in bytes. */
export const signInBodyLimit = 64 * 1024

/**
 * The unvalidated fields of a request: the query of GET and HEAD, else the body of at most `limit` bytes. A body that
 * starts with `{` or `[` is parsed as JSON, whatever its Content-Type. Any other body is a form, unless its type is
 * JSON. A body that is an array becomes the field `list`. Rejects with an `ApiError`, also for text that is not UTF-8,
 * or with `aborted` if the client disconnects.
 */
export async function fieldsOf(
  context: Pick<Koa.Context, 'req' | 'request' | 'querystring' | 'is'>,
  limit: number,
  list?: string,
): Promise<Fields> {
  const { method = '', headers } = context.req
  if (method === 'GET' || method === 'HEAD') return queryOf(context)
  if (mayBeMultipart(headers['content-type']) && context.is('multipart/form-data') === 'multipart/form-data') {
    return { ...queryOf(context), ...(await multipartFields(context.req, limit)) }
  }
  const text = await readText(context, limit)
  if (text.length < largeText) return parseText(text, context, list)
  await ownTurn()
  const fields = parseText(text, context, list)
  // The caller validates them.
  await ownTurn()
  return fields
}

/** The fields of the query of a request. Throws code 400 if it is not UTF-8. */
export function queryOf({ querystring }: Pick<Koa.Context, 'querystring'>): Fields {
  return querystring === '' ? {} : fieldsFromPairs(parseQuery(querystring))
}

/** Parses the query of a request target. Throws code 400 if its escapes are not UTF-8. */
export function parseQuery(query: string): URLSearchParams {
  return parsePairs(query, 'query')
}

/** The error for bytes, or percent-escapes, that are not UTF-8. */
function notUtf8(what: 'query' | 'body' | 'form'): ApiError {
  return badRequest(`the ${what} is not UTF-8`)
}

/** False where `is` need not parse the type. */
function mayBeMultipart(type: string | undefined): boolean {
  return type !== undefined && /multipart/i.test(type)
}

type TextReader = (context: Koa.Context, next: Koa.Next) => Promise<unknown>

/** Body readers by their size limit in bytes. */
const readers = new Map<number, TextReader>()

async function loadReader(limit: number): Promise<TextReader> {
  // Loaded on demand: it is large, and servers that offer only WebDAV and SFTP do not need it.
  const { koaBody } = await import('koa-body')
  // Without an encoding the body is a buffer: decoding by koa-body would drop a byte order mark, which is not valid
  // JSON.
  const reader = koaBody({ encoding: '', textLimit: limit, json: false, urlencoded: false })
  readers.set(limit, reader)
  return reader
}

async function readText({ req, request }: Pick<Koa.Context, 'req' | 'request'>, limit: number): Promise<string> {
  // koa-body decodes content codings, and its promise never settles if the client disconnects within an encoded body
  // (co-body: lib/text.js, inflation: index.js).
  const { 'content-encoding': coding = 'identity' } = req.headers
  if (coding !== 'identity') throw badRequest('the body is compressed, which is not supported')
  // koa-body checks the method and the type. Here the body is text whatever they are.
  const body = await bodySource(req, { joinsChunks: true }).read()
  const { headers } = req
  const asText = { req: Object.assign(body, { headers }), request, method: 'POST', is: () => 'text/plain' }
  const read = readers.get(limit) ?? (await loadReader(limit))
  try {
    await withTimeout(
      read(asText as unknown as Koa.Context, () => Promise.resolve()),
      tooSlow,
    )
    const text = decodeUtf8(request.body as unknown as Buffer)
    if (text === undefined) throw notUtf8('body')
    return text
  } catch (error) {
    if (error instanceof ApiError) throw error
    throw (error as { status?: unknown }).status === 413
      ? refused(bodyTooLarge(limit))
      : badRequest('the body is malformed')
  } finally {
    // The rest of the request can be drained.
    body.destroy()
  }
}

function tooSlow(): ApiError {
  return refused({ code: 408, text: 'the body did not arrive in time', error: 'timeout' })
}

function parseText(text: string, context: Pick<Koa.Context, 'is' | 'querystring'>, list: string | undefined): Fields {
  const isJson = /^[ \t\r\n]*[[{]/.test(text)
  if (!isJson && context.is('json') !== 'json') {
    return { ...queryOf(context), ...fieldsFromPairs(parsePairs(text, 'form')) }
  }
  if (text.trim() === '') throw refused(emptyBody)
  const value = parseJson(firstValue(text))
  if (value === undefined) throw badRequest('the body is not valid JSON')
  if (value === null) return {}
  if (Array.isArray(value) && list !== undefined) return { [list]: value }
  if (typeof value !== 'object' || Array.isArray(value)) throw badRequest('the body must be a JSON object')
  return value as Fields
}

/** Undefined if the text is not JSON. Throws code 400 if a string is not Unicode text. */
function parseJson(json: string): unknown {
  try {
    // Few bodies have escapes of surrogates, and a reviver is slow.
    return JSON.parse(json, /\\ud[89a-f]/i.test(json) ? assertUnicode : undefined)
  } catch (error) {
    if (error instanceof ApiError) throw error
    return undefined
  }
}

/** A reviver that throws code 400 for half of a surrogate pair, which UTF-8 cannot represent. */
function assertUnicode(key: string, value: unknown): unknown {
  if (key.isWellFormed() && (typeof value !== 'string' || value.isWellFormed())) return value
  throw badRequest('the body contains half of a surrogate pair')
}

/** Maximum number of JSON values, nested ones included, or of form pairs. Limits the time of parsing and validation. */
export const valueLimit = 50_000
/** Maximum number of fields of one object. Objects with many names take far longer than lists of the same length. */
const fieldLimit = 1000

function tooMany(limit: number, what: 'values' | 'fields'): ApiError {
  return badRequest(`the body holds more than ${limit} ${what}`)
}

/** The JSON object or array at the start of the text. Ignores what follows it, because clients rely on that. */
function firstValue(text: string): string {
  /** The number of fields of each open object, or 0 for a list; innermost last. */
  const open: number[] = []
  let values = 0
  let quoted = false
  for (let index = 0; index < text.length; index++) {
    const character = text.charAt(index)
    if (quoted && character === '\\') index++
    else if (character === '"') quoted = !quoted
    else if (quoted) continue
    else if (character === '}' || character === ']') open.pop()
    else if (character === '{' || character === '[') open.push(character === '{' ? 1 : 0)
    else if (character === ',') {
      const fields = open.pop() ?? 0
      if (fields === fieldLimit) throw tooMany(fieldLimit, 'fields')
      open.push(fields === 0 ? 0 : fields + 1)
      values++
    } else continue
    if (open.length === 0 && !quoted) return text.slice(0, index + 1)
    if (open.length + values > valueLimit) throw tooMany(valueLimit, 'values')
  }
  return text
}

/** The pairs of a query or a form. Throws code 400 if there are too many, or their escapes are not UTF-8. */
function parsePairs(text: string, what: 'query' | 'form'): URLSearchParams {
  // URLSearchParams would replace the bytes.
  if (!hasUtf8Escapes(text)) throw notUtf8(what)
  let pairs = 0
  for (let index = text.indexOf('&'); index >= 0; index = text.indexOf('&', index + 1)) {
    if (++pairs > valueLimit) throw tooMany(valueLimit, 'values')
  }
  // URLSearchParams and replaceAll are slow on many plus signs, which encode spaces. split and join are not.
  return new URLSearchParams(text.split('+').join(' '))
}

function fieldsFromPairs(pairs: Iterable<[string, string]>): Fields {
  const fields: Record<string, string | string[]> = Object.create(null) as Record<string, string | string[]>
  let count = 0
  for (const [name, value] of pairs) {
    const previous = fields[name]
    if (previous === undefined) {
      if (++count > fieldLimit) throw tooMany(fieldLimit, 'fields')
      fields[name] = value
    } else if (Array.isArray(previous)) previous.push(value)
    else fields[name] = [previous, value]
  }
  return fields
}

async function multipartFields(request: IncomingMessage, limit: number): Promise<Fields> {
  const pairs: [string, string][] = []
  let size = 0
  try {
    const form = new Busboy({
      headers: request.headers as typeof request.headers & { 'content-type': string },
      limits: { files: 0, fieldSize: limit, fields: fieldLimit },
    })
    form.on('field', (name, value) => {
      pairs.push([name, value])
    })
    const received = pipeline(
      await bodySource(request).read(),
      async function* (chunks: AsyncIterable<Buffer>) {
        for await (const chunk of chunks) {
          size += chunk.length
          if (size > limit) throw refused(bodyTooLarge(limit))
          yield chunk
        }
      },
      form,
    )
    await withTimeout(received, tooSlow)
  } catch (error) {
    if (error instanceof ApiError) throw error
    if (toGatewayError(error).code === 'aborted') throw error
    throw refused(malformedForm)
  }
  // Busboy replaces bytes that are not UTF-8.
  if (!pairs.flat().every(isDecoded)) throw notUtf8('form')
  return fieldsFromPairs(pairs)
}

/**
 * Validates the fields and returns the output of `schema`. Throws code 400 if they do not match. The message is
 * `invalidMessage`, or else names the field, never its value.
 */
export function checkFields<S extends z.ZodType>(schema: S, fields: unknown, invalidMessage?: string): z.output<S> {
  const messageOf: MessageOf = (issue) =>
    invalidMessage ?? `${issue.path.join('.').slice(0, 100)}: ${isAbsent(fields, issue) ? 'is missing' : issue.message}`
  const issue = issueInList(schema, fields)
  if (issue !== undefined) throw badRequest(messageOf(issue))
  return check(schema, fields, messageOf)
}

/**
 * Validates the headers and returns the output of `schema`. Throws code 400 with the message of the schema, or if a
 * header of the schema occurs more than once.
 */
export function checkHeaders<S extends z.ZodType>(
  schema: S,
  headers: Readonly<Record<string, readonly string[] | undefined>>,
): z.output<S> {
  const entries = Object.entries(headers).map(([name, values]) => [name, values?.length === 1 ? values[0] : values])
  return check(schema, Object.fromEntries(entries), ({ path: [name], message }) =>
    (headers[String(name)]?.length ?? 0) > 1 ? `${String(name)} is given more than once` : message,
  )
}

/** Like `checkHeaders`, for the headers of a request. */
export function checkHeadersOf<S extends z.ZodType>(schema: S, request: IncomingMessage): z.output<S> {
  const { headers, rawHeaders } = request
  // Node joins or drops the values of a header that occurs more than once.
  const isAnyRepeated = Object.keys(headers).length * 2 !== rawHeaders.length
  return isAnyRepeated
    ? checkHeaders(schema, request.headersDistinct)
    : check(schema, headers, ({ message }) => message)
}

type Issue = Pick<z.core.$ZodIssue, 'path' | 'message' | 'code'>
type MessageOf = (issue: Issue) => string

function check<S extends z.ZodType>(schema: S, value: unknown, messageOf: MessageOf): z.output<S> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  // A context makes Zod slower: a value that is valid is checked without one.
  const [issue] = schema.safeParse(value, words).error?.issues ?? []
  throw badRequest(messageOf(issue ?? { path: [], message: 'invalid', code: 'custom' }))
}

/** Whether the issue is that a field is absent. */
function isAbsent(fields: unknown, { code, path }: Issue): boolean {
  if (code !== 'invalid_type' && code !== 'invalid_union' && code !== 'invalid_value') return false
  let value = fields
  for (const name of path) value = (value as Readonly<Record<PropertyKey, unknown>> | null | undefined)?.[name]
  return value === undefined || value === null
}

const typeWords: Readonly<Record<string, string>> = { string: 'a text', array: 'a list', object: 'an object' }

/** The messages of schemas that have none of their own. */
const words: z.core.ParseContext<z.core.$ZodIssue> = {
  error: (issue) => {
    if (issue.code === 'invalid_type') return `must be ${typeWords[issue.expected] ?? `of type ${issue.expected}`}`
    if (issue.code === 'unrecognized_keys') return `has no field ${issue.keys[0]?.slice(0, 100) ?? ''}`
    if (issue.code === 'too_big' && issue.origin === 'string') return `must have ${issue.maximum} characters at most`
    return undefined
  },
}

/** The number of list items that are validated in one call. */
const itemsPerCheck = 500

/**
 * The first issue if a field is a long list; undefined if there is none or no list is long. Validates such lists in
 * batches, because zod collects every issue of a list.
 */
function issueInList(schema: z.ZodType, value: unknown): z.core.$ZodIssue | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const isLong = (each: unknown) => Array.isArray(each) && each.length > itemsPerCheck
  if (!Object.values(value).some(isLong)) return undefined
  const lists = Object.entries(value).filter(([, each]) => isLong(each))
  const batch = (list: unknown, from: number) => (list as unknown[]).slice(from, from + itemsPerCheck)
  const shortened = { ...value, ...Object.fromEntries(lists.map(([name, list]) => [name, batch(list, 0)])) }
  for (const [name, list] of lists) {
    for (let from = 0; from < (list as unknown[]).length; from += itemsPerCheck) {
      const [issue] = schema.safeParse({ ...shortened, [name]: batch(list, from) }, words).error?.issues ?? []
      if (issue === undefined) continue
      const [field, item, ...rest] = issue.path
      const path = field === name && typeof item === 'number' ? [field, item + from, ...rest] : issue.path
      return { ...issue, path }
    }
  }
  return undefined
}

// Building blocks of schemas. null counts as absent. Forms and queries contain only strings, so numbers and booleans
// are also accepted as strings. The metadata `wire` is the JSON Schema that the OpenAPI document shows instead of the
// derived one.

/** A string. Absent: empty. */
export const text = z
  .string()
  .nullish()
  .transform((value) => value ?? '')

/** A one-time code of six digits, as a string or a number. Absent: empty. */
export const oneTimeCode = z
  .union([z.string(), z.int().transform((code) => String(code).padStart(6, '0'))], { error: 'must be a code' })
  .nullish()
  .transform((code) => code ?? '')
  .meta({ wire: { type: 'string' }, description: 'Six digits.' })

/** A choice of the values, or empty. Absent: empty. */
export function choice<const Value extends string>(...values: readonly Value[]) {
  return z
    .union([z.literal(values), z.literal('')], { error: `must be one of ${values.join(', ')}` })
    .nullish()
    .transform((value) => value ?? ('' as const))
    .meta({ wire: { type: 'string', enum: [...values, ''], default: '' } })
}

export const requiredText = z.string().min(1, 'must not be empty')

/** The path of a folder. Empty: the root. An absent one is refused, so that the root is not changed by mistake. */
export const folderPath = z.string()

export const integerValue = z
  .union(
    [
      z.int('must be an integer'),
      z
        .string()
        .regex(/^[+-]?\d{1,15}$/)
        .transform(Number),
    ],
    { error: 'must be an integer' },
  )
  .meta({ wire: { type: 'integer' } })

/** An integer. Absent or empty: `fallback`. */
export function integer(fallback: number) {
  return z
    .union([integerValue, z.literal('').transform(() => fallback)], { error: 'must be an integer' })
    .nullish()
    .transform((value) => value ?? fallback)
    .meta({ wire: { type: 'integer', default: fallback } })
}

export const flagValue = z
  .union(
    [z.boolean(), z.enum(['true', '1']).transform(() => true), z.enum(['false', '0', '']).transform(() => false)],
    {
      error: 'must be true or false',
    },
  )
  .meta({ wire: { type: 'boolean' } })

/** A boolean. Absent: false. */
export const flag = flagValue
  .nullish()
  .transform((value) => value ?? false)
  .meta({ wire: { type: 'boolean', default: false } })

/** A field that is undefined if absent or null, for values that a request leaves unchanged by omitting them. */
export function optionalField<S extends z.ZodType>(schema: S) {
  return schema.nullish().transform((value) => value ?? undefined)
}

/** A time in RFC 3339 format. */
export const timeValue = z.iso
  .datetime({ offset: true, error: 'must be a time such as 2030-12-31T23:59:59Z' })
  .transform((text) => new Date(text))
  .refine((time) => time.getUTCFullYear() <= 9999, 'must be a time such as 2030-12-31T23:59:59Z')
  .meta({ wire: { type: 'string', format: 'date-time' }, example: '2030-12-31T23:59:59Z' })

/** Like `timeValue`, or null for none. Undefined if absent. */
export const optionalTime = z
  .union([timeValue, z.null()], { error: 'must be a time such as 2030-12-31T23:59:59Z, or null' })
  .optional()
  .meta({ wire: { anyOf: [{ type: 'string', format: 'date-time' }, { type: 'null' }] } })

/** A list of strings. A single string is a list of one, as forms send it. Absent: empty. */
export const stringList = z
  .union([z.array(z.string()), z.string().transform((value) => [value])], { error: 'must be a list of texts' })
  .nullish()
  .transform((value) => value ?? [])
  .meta({ wire: { type: 'array', items: { type: 'string' } } })

export const paging = {
  page: integer(1).describe('Counted from 1.'),
  per_page: integer(0).describe('Items per page. 0: all items on one page.'),
}

/** The id of a row, in the query. */
export const rowNumber = z
  .string('must be an integer')
  .regex(/^\d{1,15}$/, 'must be an integer')
  .transform(Number)
  .meta({ wire: { type: 'integer', minimum: 0 }, example: 1 })

export const rowId = z.object({ id: rowNumber })

/** A string in the query. Absent or repeated: empty. */
export const queryText = z
  .string()
  .optional()
  .catch(undefined)
  .transform((value) => value ?? '')
  .meta({ wire: { type: 'string' } })
