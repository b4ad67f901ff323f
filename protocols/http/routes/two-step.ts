/** Two-step verification of the current user. */
import { z } from 'zod'
import { newOtpSecret, otpUri } from '../../../src/accounts/otp.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { withResponses } from '../api/errors.js'
import { accountChanged, coreRefusal } from '../api/refusals.js'
import { oneTimeCode, requiredText, signInBodyLimit } from '../api/fields.js'
import { signalOf } from '../api/http-api.js'

/** Width and height of the QR code, in pixels. */
const qrCodeSize = 400

const guestRefusal: Refusal = { code: 403, text: 'Guest user can not generate 2FA code', error: 'denied' }
const wrongPassword: Refusal = { code: 400, text: 'the password is wrong', error: 'wrong_credentials' }

export const twoStepEndpoints = [
  // The secret is not stored until `verify` proves that the user has it.
  endpoint({
    method: 'post',
    path: '/api/auth/2fa/generate',
    tag: 'Signing in',
    summary: 'Generate a secret for two-step verification',
    description: 'The secret takes effect when `verify` succeeds with a code generated from it.',
    access: 'user',
    recentSignIn: true,
    setsUpTwoStep: true,
    guestRefusal,
    data: z.object({
      qr: z.string().describe('The secret as a QR code: a data URL of a PNG image.'),
      secret: z.string().describe('The secret in base32.'),
    }),
    async answer({ principal }) {
      const secret = newOtpSecret()
      // Loaded on demand, because it is rarely used.
      const { toDataURL } = await import('qrcode')
      const qr = await toDataURL(otpUri(secret, principal.username), { type: 'image/png', width: qrCodeSize })
      return { qr, secret }
    },
  }),
  endpoint({
    method: 'post',
    path: '/api/auth/2fa/verify',
    tag: 'Signing in',
    summary: 'Enable two-step verification, or replace its secret, with a code generated from the new secret',
    access: 'user',
    event: 'admin.user',
    recentSignIn: true,
    setsUpTwoStep: true,
    guestRefusal,
    fields: z.object({
      code: oneTimeCode
        .pipe(z.string().min(1, 'must not be empty'))
        .meta({ wire: { type: 'string', minLength: 1 }, example: '123456' }),
      secret: z
        .string()
        .min(1, 'must not be empty')
        .max(128, 'is too long')
        .describe('The secret that `generate` returned.'),
      current_code: oneTimeCode.describe(
        'Required if two-step verification is on: a code of the secret to be replaced, or a recovery code.',
      ),
    }),
    refusals: [
      { ...coreRefusal('invalid', { detail: 'code_required' }), when: 'a code is missing, wrong or used' },
      accountChanged,
      coreRefusal('throttled', { detail: 'sign_in_throttled' }, 'the limit of wrong codes of the account is reached'),
    ],
    answer({ context, api, fields: { code, secret, current_code: currentCode }, principal }) {
      const { address } = api.clientOf(context.req)
      // Clients treat 401 as an expired session.
      return withResponses({ unauthenticated: { code: 400 } }, () =>
        api.gateway.accounts.twoStep.enable(principal.userId, { secret, code, currentCode, address }),
      )
    },
  }),
  endpoint({
    method: 'get',
    path: '/api/me/recovery_codes',
    tag: 'Own account',
    summary: 'Count the recovery codes that the current user has left',
    access: 'user',
    data: z.object({ left: z.int().describe('0 also if two-step verification is off.') }),
    answer: async ({ api, principal }) => ({ left: await api.gateway.accounts.recoveryCodes.count(principal.userId) }),
  }),
  endpoint({
    method: 'post',
    path: '/api/auth/2fa/recovery_codes',
    tag: 'Signing in',
    summary: 'Make new recovery codes in place of those that the current user has',
    description:
      'A sign-in accepts each recovery code once in place of a one-time code. They end when two-step verification is ' +
      'turned off or gets another secret.',
    access: 'user',
    event: 'admin.user',
    recentSignIn: true,
    guestRefusal,
    bodyLimit: signInBodyLimit,
    fields: z.object({ password: requiredText.meta({ example: 'secret' }).describe('The password of the user.') }),
    data: z.object({
      codes: z
        .array(z.string())
        .meta({ example: ['abcd-efgh-jkmn-pqrs'] })
        .describe('Ten codes, which are returned only here.'),
    }),
    refusals: [
      wrongPassword,
      { code: 400, text: 'two-step verification is off: set it up first', error: 'invalid' },
      coreRefusal(
        'throttled',
        { detail: 'sign_in_throttled' },
        'the limit of failed sign-ins or of concurrent sign-ins of the address is reached',
      ),
    ],
    async answer({ context, api, fields: { password }, principal }) {
      const { address } = api.clientOf(context.req)
      const proof = { password: { plain: password }, address, signal: signalOf(context.res) }
      return withResponses({ wrong_credentials: wrongPassword }, async () => ({
        codes: await api.gateway.accounts.twoStep.renewRecoveryCodes(principal.userId, proof),
      }))
    },
  }),
]
