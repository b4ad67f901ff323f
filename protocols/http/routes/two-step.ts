/** Two-step verification of the current user. */
import { z } from 'zod'
import { newOtpSecret, otpUri } from '../../../src/accounts/otp.js'
import { endpoint, type Refusal } from '../endpoint.js'
import { oneTimeCode } from '../fields.js'

/** Width and height of the QR code, in pixels. */
const qrCodeSize = 400

const guestRefusal: Refusal = { code: 403, text: 'Guest user can not generate 2FA code' }

export const twoStepEndpoints = [
  // The secret is not stored until `verify` proves that the user has it.
  endpoint({
    method: 'post',
    path: '/api/auth/2fa/generate',
    tag: 'Signing in',
    summary: 'Generate a secret for two-step verification',
    description: 'The secret takes effect when `verify` succeeds with a code generated from it.',
    access: 'user',
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
    summary: 'Enable two-step verification with a code generated from a new secret',
    access: 'user',
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
    }),
    refusals: [
      { code: 400, text: 'Invalid 2FA code' },
      { code: 429, text: 'Too many …', when: 'the limit of wrong codes of the account is reached' },
    ],
    answer({ context, api, fields: { code, secret }, principal }) {
      const { address } = api.clientOf(context.req)
      return api.gateway.accounts.enableTwoStep(principal.userId, { secret, code, address })
    },
  }),
]
