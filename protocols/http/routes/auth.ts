/** Sign-in and sign-out. */
import { z } from 'zod'
import type { Credentials } from '../../../src/accounts/accounts.js'
import { tokenOf } from '../authenticate.js'
import { endpoint, type Call, type Refusal } from '../endpoint.js'
import { withResponses } from '../errors.js'
import { oneTimeCode, requiredText, signInBodyLimit, text } from '../fields.js'

const nameField = { username: requiredText.meta({ example: 'ann' }) }
const plainFields = z.object({ ...nameField, password: text.meta({ example: 'secret' }), otp_code: oneTimeCode })
const hashFields = z.object({
  ...nameField,
  password: text
    .meta({ example: '8a119a191d7f34278647d21217ff550a9f6748d48a6952379405487747a840c3' })
    .describe(
      'The SHA-256 of the password with the suffix `-https://github.com/alist-org/alist`, in lower-case hexadecimal.',
    ),
  otp_code: oneTimeCode,
})
const tokenData = z.object({ token: z.string().describe('The value of the header `Authorization` in later requests.') })

const refusals: readonly Refusal[] = [
  { code: 400, text: 'Invalid username or password' },
  { code: 400, text: 'Current user is disabled, replace please', when: 'the password is correct' },
  { code: 400, text: 'the account has just changed, sign in again' },
  { code: 402, text: 'Invalid 2FA code', when: 'the password is correct, and the code is missing, wrong or used' },
  {
    code: 429,
    text: 'Too many …',
    when: 'the limit of failed sign-ins or of concurrent sign-ins of the address, or of wrong codes of the account, is reached',
  },
]

export const authEndpoints = [
  endpoint({
    method: 'post',
    path: '/api/auth/login',
    tag: 'Signing in',
    summary: 'Sign in with user name and password',
    access: 'anybody',
    fields: plainFields,
    bodyLimit: signInBodyLimit,
    data: tokenData,
    refusals,
    answer: async (call) => ({ token: await issueToken(call, { plain: call.fields.password }) }),
  }),
  endpoint({
    method: 'post',
    path: '/api/auth/login/hash',
    tag: 'Signing in',
    summary: 'Sign in with user name and hashed password',
    access: 'anybody',
    fields: hashFields,
    bodyLimit: signInBodyLimit,
    data: tokenData,
    refusals,
    answer: async (call) => ({ token: await issueToken(call, { hash: call.fields.password }) }),
  }),
  endpoint({
    method: 'get',
    path: '/api/auth/logout',
    tag: 'Signing in',
    summary: 'Sign out and revoke the token',
    description: 'Also succeeds if the token is missing, expired or revoked.',
    access: 'anybody',
    readsToken: true,
    async answer({ context, api }) {
      const current = tokenOf(context.req)
      if (current !== '') await api.gateway.accounts.signOut(current)
    },
  }),
]

/** Signs in and resolves to a token. */
async function issueToken(
  { context, api, fields: { username, otp_code: code } }: Call<z.output<typeof plainFields>>,
  password: Credentials['password'],
): Promise<string> {
  const { address } = api.clientOf(context.req)
  // Clients treat 401 as an expired session and would show no message on the sign-in page.
  const responses = { code_required: { code: 402 }, unauthenticated: { code: 400 }, denied: { code: 400 } }
  return withResponses(responses, () =>
    api.gateway.accounts.signIn({ username, password, code: code === '' ? undefined : code, address }),
  )
}
