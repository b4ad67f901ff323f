/**
 * Compares the responses in tests with the declarations of their endpoints, from which the document of the API is made.
 */
import { isDeepStrictEqual } from 'node:util'
import type { z } from 'zod'
import type { EndpointDescription, Refusal } from '../../../protocols/http/api/endpoint.js'
import { endpoints } from '../../../protocols/http/endpoints.js'
import { refusalsOf } from '../../../protocols/http/api/refusals.js'
import type { Envelope } from './served.js'

type Answer = Envelope & { readonly error?: string }

/** Throws if the response is not one that its endpoint declares. `target`: path and query. */
export function assertDeclared(method: string, target: string, answer: Answer): void {
  const [path] = target.split('?')
  const endpoint = endpoints.find((each) => isAt(each, path ?? '') && isBy(each, method))
  if (endpoint === undefined || endpoint.plain !== undefined) return
  const fault = answer.code === 200 ? faultOfSuccess(endpoint, answer) : faultOfRefusal(endpoint, answer)
  if (fault !== undefined) throw new Error(`${method} ${endpoint.path} answers otherwise than declared: ${fault}`)
}

function isAt({ path }: EndpointDescription, asked: string): boolean {
  return path === asked || new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`).test(asked)
}

function isBy({ method: declared }: EndpointDescription, method: string): boolean {
  return declared === 'any' || declared === method.toLowerCase()
}

function faultOfSuccess({ data: schema }: EndpointDescription, { data, error }: Answer): string | undefined {
  return error === undefined ? faultOfData(schema, data) : `a success has the name ${error}`
}

function faultOfData(schema: z.ZodType | undefined, data: unknown): string | undefined {
  if (schema === undefined) return data === null ? undefined : `data is ${JSON.stringify(data)}, not null`
  const result = schema.safeParse(data)
  if (!result.success) return result.error.message
  return isDeepStrictEqual(result.data, data) ? undefined : `data has fields of its own: ${JSON.stringify(data)}`
}

function faultOfRefusal(endpoint: EndpointDescription, { code, data, error, message }: Answer): string | undefined {
  const told = refusalsOf(endpoint).filter((refusal) => refusal.code === code && matchesRefusal(message, refusal))
  if (told.length === 0) return `the refusal ${code} "${message}" is not among its own`
  const names = told.map((refusal) => refusal.error)
  if (!names.some((name) => name === error)) {
    return `the refusal ${code} "${message}" has the name ${error}, not one of ${names.join(', ')}`
  }
  if (data === null) return undefined
  const { refusalData } = endpoint
  return refusalData === undefined ? `a refusal carries ${JSON.stringify(data)}` : faultOfData(refusalData.schema, data)
}

/** Whether the message matches the text of the refusal, in which `…` matches any text. */
export function matchesRefusal(message: string, { text }: Pick<Refusal, 'text'>): boolean {
  const [first = '', ...rest] = text.split('…')
  if (rest.length === 0) return message === text
  if (!message.startsWith(first)) return false
  let position = first.length
  for (const [index, part] of rest.entries()) {
    const found = index === rest.length - 1 ? message.length - part.length : message.indexOf(part, position)
    if (found < position || !message.startsWith(part, found)) return false
    position = found + part.length
  }
  return true
}
