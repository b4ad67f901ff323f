/** The sign-in to 115 by a QR code, which the app of 115 scans. It gives the cookie of the account. */
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { QrAnswer, QrCode } from '../../src/contract/driver-type.js'
import { GatewayError, isGatewayError } from '../../src/base/errors.js'
import { field, numberOf, textOf } from '../lib/json-api/lenient.js'
import { hasCode, protocolViolation } from './errors.js'
import { cloud115Fields, qrDevices } from './index.js'
import { WebSession } from './web-session.js'

/** What `askQrSignIn` needs of a code. */
interface Ticket {
  readonly uid: string
  readonly time: string
  readonly sign: string
  /** The kind of device that signs in. */
  readonly kind: string
}

/** Milliseconds for which an answer is waited for: 115 gives it when something happens. */
const defaultPatience = 10_000
/** The code of an answer about a code that has expired, or that 115 does not know. */
const expired = 40199002

export async function beginQrSignIn(options: Readonly<Record<string, unknown>>, env: DriverEnv): Promise<QrCode> {
  const { qrcode_source: kind } = options
  return connected(env, async (session) => {
    const url = new URL('https://qrcodeapi.115.com/api/1.0/web/1.0/token')
    const { data } = await session.call({ url, isAnonymous: true, signal: env.signal })
    const text = (name: string) => textOf(field(data, 'data', name))
    const ticket: Ticket = {
      uid: text('uid'),
      time: text('time'),
      sign: text('sign'),
      kind: isDevice(kind) ? kind : cloud115Fields.qrcode_source.default,
    }
    if (ticket.uid === '' || text('qrcode') === '') throw protocolViolation('sent no QR code')
    return { text: text('qrcode'), ticket: JSON.stringify(ticket) }
  })
}

export async function askQrSignIn(text: string, env: DriverEnv, patience = defaultPatience): Promise<QrAnswer> {
  const { uid, time, sign, kind } = ticketOf(text)
  return connected(env, async (session) => {
    const url = new URL('https://qrcodeapi.115.com/get/status/')
    const query = { uid, time, sign, _: String(Math.floor(Date.now() / 1000)) }
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
    let status: number
    try {
      const call = { url, isAnonymous: true, repeatable: false, timeout: patience, signal: env.signal }
      const { data } = await session.call(call)
      // An answer without data: nothing has happened yet.
      status = numberOf(field(data, 'data', 'status')) ?? 0
    } catch (error) {
      if (isGatewayError(error, 'timeout')) return { state: 'waiting' }
      if (hasCode(error, expired)) return { state: 'expired' }
      throw error
    }
    if (status === 2)
      return { state: 'confirmed', values: { cookie: await session.exchange(uid, kind), qrcode_token: '' } }
    return { state: status === 1 ? 'scanned' : status === -1 ? 'expired' : status === -2 ? 'refused' : 'waiting' }
  })
}

async function connected<Result>(env: DriverEnv, work: (session: WebSession) => Promise<Result>): Promise<Result> {
  const session = await WebSession.connect({ limit_rate: cloud115Fields.limit_rate.default }, env, 'QR codes')
  try {
    return await work(session)
  } finally {
    await session.close()
  }
}

/** Throws `invalid` for a text that is no ticket. */
function ticketOf(text: string): Ticket {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    value = undefined
  }
  const part = (name: string) => textOf(field(value, name))
  const ticket = { uid: part('uid'), time: part('time'), sign: part('sign'), kind: part('kind') }
  if (ticket.uid !== '' && isDevice(ticket.kind)) return ticket
  throw new GatewayError('invalid', { reason: 'this is no ticket of a QR code' })
}

function isDevice(kind: unknown): kind is string {
  return typeof kind === 'string' && qrDevices.includes(kind)
}
