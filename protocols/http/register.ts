/** Puts declared endpoints on the router: letting in, reading, checking and the envelope happen here, for all of them alike. */
import type { IncomingMessage } from 'node:http'
import type { Principal } from '../../src/principal.js'
import { principalOf } from './authenticate.js'
import type { Context, Door, Routes } from './context.js'
import type { Access, Endpoint, Refusal } from './endpoint.js'
import { success } from './envelope.js'
import { WireError } from './errors.js'
import { bodyLimit, checkFields, checkHeaders, fieldsOf } from './fields.js'
import { streamed } from './long-list.js'
import { adminRefusal, guestRefusal } from './refusals.js'

export function register(routes: Routes, door: Door, endpoints: readonly Endpoint[]): void {
  for (const endpoint of endpoints) {
    const handle = async (context: Context): Promise<void> => {
      await answer(door, context, endpoint)
    }
    const path = endpoint.path.replace(/\{(\w+)\}/g, ':$1')
    if (endpoint.method === 'any') routes.all(path, handle)
    else routes[endpoint.method](path, handle)
  }
}

async function answer(door: Door, context: Context, endpoint: Endpoint): Promise<void> {
  const principal = await letIn(door, context.req, endpoint)
  if (endpoint.refusalData !== undefined) context.state.refusalData = endpoint.refusalData
  const params = endpoint.params?.safeParse(context.params)
  if (params?.success === false) throw new WireError(404, 'no such endpoint')
  const query = endpoint.query && checkFields(endpoint.query, context.query, endpoint.faultyQuery)
  const headers = endpoint.headers && checkHeaders(endpoint.headers, context.req.headersDistinct)
  const fields =
    endpoint.fields &&
    checkFields(
      endpoint.fields,
      await fieldsOf(context, endpoint.bodyLimit ?? bodyLimit, endpoint.listField),
      endpoint.faultyFields,
    )
  const data = await endpoint.answer({ door, context, principal, params: params?.data, query, headers, fields })
  if (endpoint.plain !== undefined) return
  const envelope = success(endpoint.data === undefined ? null : data, context.state.message)
  const stream = streamed(envelope)
  if (stream) context.type = 'json'
  context.body = stream ?? envelope
}

async function letIn(
  door: Door,
  request: IncomingMessage,
  { access, guestRefusal: told = guestRefusal }: Endpoint,
): Promise<Principal | undefined> {
  if (access === 'anybody') return undefined
  const principal = await principalOf(door, request)
  if (!isAdmitted(access, principal)) throw refused(access === 'admin' ? adminRefusal : told)
  return principal
}

function isAdmitted(access: Exclude<Access, 'anybody'>, { role }: Principal): boolean {
  if (access === 'admin') return role === 'admin'
  return access === 'guest' || role !== 'guest'
}

function refused({ code, text }: Refusal): WireError {
  return new WireError(code, text)
}
