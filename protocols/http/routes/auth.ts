/** Signing in and out. */
import { z } from 'zod'
import type { Credentials } from '../../../src/accounts/accounts.js'
import { CodeRequired } from '../../../src/accounts/errors.js'
import { isGatewayError } from '../../../src/errors.js'
import { tokenOf } from '../authenticate.js'
import { endpoint, type Call, type Refusal } from '../endpoint.js'
import { WireError } from '../errors.js'
import { oneTimeCode, requiredText, signInBodyLimit, text } from '../fields.js'

const who = { username: requiredText.meta({ example: 'ann' }) }
const plainFields = z.object({ ...who, password: text.meta({ example: 'secret' }), otp_code: oneTimeCode })
const hashFields = z.object({
  ...who,
  password: text
    .meta({ example: '8a119a191d7f34278647d21217ff550a9f6748d48a6952379405487747a840c3' })
    .describe('Lower-case hexadecimal SHA-256 of the password and `-https://github.com/alist-org/alist`.'),
  otp_code: oneTimeCode,
})
const tokenData = z.object({ token: z.string().describe('For the header Authorization of further requests.') })

const refusals: readonly Refusal[] = [
  { code: 400, text: 'Invalid username or password' },
  { code: 400, text: 'Current user is disabled, replace please', when: 'the password is right' },
  { code: 400, text: 'the account has just changed, sign in again' },
  { code: 402, text: 'Invalid 2FA code', when: 'the password is right, and the code is missing, wrong or used' },
  {
    code: 429,
    text: 'Too many …',
    when: 'this address has failed too often, too many tries of it are waiting, or the account has had too many wrong codes',
  },
]

export const authEndpoints = [
  endpoint({
    method: 'post',
    path: '/api/auth/login',
    tag: 'Signing in',
    summary: 'Sign in with name and password',
    access: 'anybody',
    fields: plainFields,
    bodyLimit: signInBodyLimit,
    data: tokenData,
    refusals,
    answer: async (call) => ({ token: await token(call, { plain: call.fields.password }) }),
  }),
  endpoint({
    method: 'post',
    path: '/api/auth/login/hash',
    tag: 'Signing in',
    summary: 'Sign in with name and hashed password',
    access: 'anybody',
    fields: hashFields,
    bodyLimit: signInBodyLimit,
    data: tokenData,
    refusals,
    answer: async (call) => ({ token: await token(call, { hash: call.fields.password }) }),
  }),
  endpoint({
    method: 'get',
    path: '/api/auth/logout',
    tag: 'Signing in',
    summary: 'Sign out: the token that is sent ends',
    description: 'Succeeds without a token, and with one that has ended, too.',
    access: 'anybody',
    readsToken: true,
    async answer({ context, door }) {
      const ended = tokenOf(context.req)
      if (ended !== '') await door.gateway.accounts.signOut(ended)
    },
  }),
]

async function token(
  { context, door, fields: { username, otp_code: code } }: Call<z.output<typeof plainFields>>,
  password: Credentials['password'],
): Promise<string> {
  const { address } = door.clientOf(context.req)
  try {
    return await door.gateway.accounts.signIn({ username, password, code: code === '' ? undefined : code, address })
  } catch (error) {
    if (error instanceof CodeRequired) throw new WireError(402, error.reason)
    // 401 means "your session has ended" to clients: on their sign-in page they would show nothing.
    if (isGatewayError(error, 'unauthenticated', 'denied')) throw new WireError(400, error.reason)
    throw error
  }
}
