/** The fields of a request, wherever a client puts them: JSON, a form, or the query. */
import { Busboy } from '@fastify/busboy'
import type Koa from 'koa'
import type { IncomingMessage } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { z } from 'zod'
import { toGatewayError } from '../../src/errors.js'
import { bodySource, inTime } from '../lib/body.js'
import { WireError } from './errors.js'

type Fields = Readonly<Record<string, unknown>>

/** Bytes of a body that is read into memory. */
export const bodyLimit = 1024 * 1024
export const signInBodyLimit = 64 * 1024

/**
 * What a request brings as fields, not yet checked: of GET and HEAD the query, else the body, `limit` bytes at most. What
 * starts like JSON is read as JSON whatever its type says, anything else as a form. `list`: a body that is a list is the
 * field of this name.
 */
export async function fieldsOf(
  ctx: Pick<Koa.Context, 'req' | 'request' | 'method' | 'query' | 'is'>,
  limit: number,
  list?: string,
): Promise<Fields> {
  if (ctx.method === 'GET' || ctx.method === 'HEAD') return ctx.query
  if (ctx.is('multipart/form-data') === 'multipart/form-data') {
    return { ...ctx.query, ...(await multipartFields(ctx.req, limit)) }
  }
  return parseText(await readText(ctx, limit), ctx, list)
}

type TextReader = (ctx: Koa.Context, next: Koa.Next) => Promise<unknown>

/** By the bytes that they read at most. */
const readers = new Map<number, TextReader>()

async function readerOf(limit: number): Promise<TextReader> {
  const known = readers.get(limit)
  if (known !== undefined) return known
  // With its parser of multipart bodies, which is not used, it is large: servers of WebDAV and SFTP alone do not load it.
  const { koaBody } = await import('koa-body')
  // As bytes: decoding there would drop a byte order mark, which is not JSON.
  const reader = koaBody({ encoding: 'binary', textLimit: limit, json: false, urlencoded: false })
  readers.set(limit, reader)
  return reader
}

async function readText({ req, request }: Pick<Koa.Context, 'req' | 'request'>, limit: number): Promise<string> {
  // koa-body decodes others, and never ends where the client leaves in the middle of one.
  const { 'content-encoding': coding = 'identity' } = req.headers
  if (coding !== 'identity') throw new WireError(400, 'the body is compressed, which is not supported')
  // koa-body asks for the method and the type; here a body of any of them is read as a text.
  const asText = { req, request, method: 'POST', is: () => 'text/plain' } as unknown as Koa.Context
  const read = await readerOf(limit)
  try {
    await inTime(
      read(asText, () => Promise.resolve()),
      tooSlow,
    )
    return Buffer.from(request.body as string, 'latin1').toString()
  } catch (error) {
    if (error instanceof WireError) throw error
    throw (error as { status?: unknown }).status === 413 ? tooLarge(limit) : new WireError(400, 'the body is malformed')
  }
}

function tooSlow(): WireError {
  return new WireError(408, 'the body did not arrive in time')
}

function tooLarge(limit: number): WireError {
  return new WireError(400, `the body is larger than ${limit} bytes`)
}

function parseText(text: string, ctx: Pick<Koa.Context, 'is' | 'query'>, list: string | undefined): Fields {
  const isJson = /^[ \t\r\n]*[[{]/.test(text)
  if (!isJson && ctx.is('json') !== 'json') return { ...ctx.query, ...formOf(parsedForm(text)) }
  if (text.trim() === '') throw new WireError(400, 'EOF')
  const value = parsed(firstValue(text))
  if (value === undefined) throw new WireError(400, 'the body is not valid JSON')
  if (value === null) return {}
  if (Array.isArray(value) && list !== undefined) return { [list]: value }
  if (typeof value !== 'object' || Array.isArray(value)) throw new WireError(400, 'the body must be a JSON object')
  return value as Fields
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}

/** Values of a body, those in lists and objects too, and pairs of a form: more of them take too long to be read and checked. */
const valueLimit = 50_000

function tooManyValues(): WireError {
  return new WireError(400, `the body holds more than ${valueLimit} values`)
}

/** Of a text that begins with an object or a list, that alone: what stands behind it is passed over, as clients are used to. */
function firstValue(text: string): string {
  let depth = 0
  let values = 0
  let quoted = false
  for (let at = 0; at < text.length; at++) {
    const character = text.charAt(at)
    if (quoted && character === '\\') at++
    else if (character === '"') quoted = !quoted
    else if (quoted) continue
    else if (character === '}' || character === ']') depth--
    else if (character === '{' || character === '[') depth++
    else if (character === ',') values++
    else continue
    if (depth === 0 && !quoted) return text.slice(0, at + 1)
    if (depth + values > valueLimit) throw tooManyValues()
  }
  return text
}

function parsedForm(text: string): URLSearchParams {
  let pairs = 0
  for (let at = text.indexOf('&'); at >= 0; at = text.indexOf('&', at + 1)) {
    if (++pairs > valueLimit) throw tooManyValues()
  }
  // A plus sign stands for a space. URLSearchParams takes spaces as they are, and is slow with many plus signs, as replaceAll is.
  return new URLSearchParams(text.split('+').join(' '))
}

function formOf(pairs: Iterable<[string, string]>): Fields {
  const fields: Record<string, string | string[]> = Object.create(null) as Record<string, string | string[]>
  for (const [name, value] of pairs) {
    const earlier = fields[name]
    if (earlier === undefined) fields[name] = value
    else if (Array.isArray(earlier)) earlier.push(value)
    else fields[name] = [earlier, value]
  }
  return fields
}

async function multipartFields(request: IncomingMessage, limit: number): Promise<Fields> {
  const pairs: [string, string][] = []
  let size = 0
  try {
    const form = new Busboy({
      headers: request.headers as typeof request.headers & { 'content-type': string },
      limits: { files: 0, fieldSize: limit, fields: 1000 },
    })
    form.on('field', (name, value) => {
      pairs.push([name, value])
    })
    const received = pipeline(
      await bodySource(request).read(),
      async function* (chunks: AsyncIterable<Buffer>) {
        for await (const chunk of chunks) {
          size += chunk.length
          if (size > limit) throw tooLarge(limit)
          yield chunk
        }
      },
      form,
    )
    await inTime(received, tooSlow)
  } catch (error) {
    if (error instanceof WireError) throw error
    if (toGatewayError(error).code === 'aborted') throw error
    throw new WireError(400, 'the form is malformed')
  }
  return formOf(pairs)
}

/**
 * The fields as `schema` has them; what does not fit is code 400 with the field's name, never its value, or with `wording`, the
 * text that clients know for these fields, whatever is wrong with them.
 */
export function checkFields<S extends z.ZodType>(schema: S, fields: unknown, wording?: string): z.output<S> {
  return check(schema, fields, ({ path, message }) => wording ?? `${path.join('.').slice(0, 100)}: ${message}`)
}

/** Schemas of headers bring their own wording. One that they name and that comes twice is refused: nobody knows which is meant. */
export function checkHeaders<S extends z.ZodType>(
  schema: S,
  headers: Readonly<Record<string, readonly string[] | undefined>>,
): z.output<S> {
  const values = Object.entries(headers).map(([name, all]) => [name, all?.length === 1 ? all[0] : all])
  return check(schema, Object.fromEntries(values), ({ path: [name], message }) =>
    (headers[String(name)]?.length ?? 0) > 1 ? `${String(name)} is given more than once` : message,
  )
}

function check<S extends z.ZodType>(
  schema: S,
  value: unknown,
  textOf: (issue: Pick<z.core.$ZodIssue, 'path' | 'message'>) => string,
): z.output<S> {
  const issue = issueInList(schema, value)
  if (issue !== undefined) throw new WireError(400, textOf(issue))
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw new WireError(400, textOf(result.error.issues[0] ?? { path: [], message: 'invalid' }))
}

/** Items of a list that are checked at once. */
const itemsAtOnce = 500

/** The first thing that is wrong in a long list of the fields, or in what is beside it. A schema itself would look for all of them. */
function issueInList(schema: z.ZodType, value: unknown): z.core.$ZodIssue | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const lists = Object.entries(value).filter(([, each]) => Array.isArray(each) && each.length > itemsAtOnce)
  const part = (list: unknown, from: number) => (list as unknown[]).slice(from, from + itemsAtOnce)
  const cut = { ...value, ...Object.fromEntries(lists.map(([name, list]) => [name, part(list, 0)])) }
  for (const [name, list] of lists) {
    for (let from = 0; from < (list as unknown[]).length; from += itemsAtOnce) {
      const [issue] = schema.safeParse({ ...cut, [name]: part(list, from) }).error?.issues ?? []
      if (issue === undefined) continue
      const [field, item, ...rest] = issue.path
      const path = field === name && typeof item === 'number' ? [field, item + from, ...rest] : issue.path
      return { ...issue, path }
    }
  }
  return undefined
}

// The pieces of schemas. null is absent; forms and queries bring every value as text. `wire` is what the document of the API
// says of a piece that takes more than one spelling.

export const text = z
  .string()
  .nullish()
  .transform((value) => value ?? '')

/** Clients send the six digits as a text or as a number. */
export const oneTimeCode = z
  .union([z.string(), z.int().transform((code) => String(code).padStart(6, '0'))])
  .nullish()
  .transform((code) => code ?? '')
  .meta({ wire: { type: 'string' }, description: 'Six digits.' })

export const requiredText = z.string().min(1, 'must not be empty')

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

/** Absent or empty: `fallback`. */
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

export const flag = flagValue
  .nullish()
  .transform((value) => value ?? false)
  .meta({ wire: { type: 'boolean', default: false } })

/** For what stays as it is where a request does not name it: absent stays absent. */
export function given<S extends z.ZodType>(schema: S) {
  return schema.nullish().transform((value) => value ?? undefined)
}

/** A form brings a single one without brackets. */
export const texts = z
  .union([z.array(z.string()), z.string().transform((value) => [value])], { error: 'must be a list of texts' })
  .nullish()
  .transform((value) => value ?? [])
  .meta({ wire: { type: 'array', items: { type: 'string' } } })

export const paging = {
  page: integer(1).describe('Counted from 1.'),
  per_page: integer(0).describe('0: everything is one page.'),
}

/** The number in the query that names one row. */
export const rowNumber = z
  .string('must be an integer')
  .regex(/^\d{1,15}$/, 'must be an integer')
  .transform(Number)
  .meta({ wire: { type: 'integer', minimum: 0 }, example: 1 })

export const rowId = z.object({ id: rowNumber })

/** A text in the query; absent, or there more than once: empty. */
export const queryText = z
  .string()
  .optional()
  .catch(undefined)
  .transform((value) => value ?? '')
  .meta({ wire: { type: 'string' } })
