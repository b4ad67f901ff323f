/** Two-step verification of the user who asks. */
import { z } from 'zod'
import { newOtpSecret, otpAddress } from '../../../src/accounts/otp.js'
import { endpoint, type Refusal } from '../endpoint.js'
import { oneTimeCode } from '../fields.js'

/** Pixels of each side of the picture. */
const pictureSize = 400

const guestRefusal: Refusal = { code: 403, text: 'Guest user can not generate 2FA code' }

export const twoStepEndpoints = [
  // Nothing is stored until a code proves that the secret has arrived.
  endpoint({
    method: 'post',
    path: '/api/auth/2fa/generate',
    tag: 'Signing in',
    summary: 'A new secret for two-step verification',
    description: 'Nothing changes until `verify` brings a code made from it.',
    access: 'user',
    guestRefusal,
    data: z.object({
      qr: z.string().describe('A picture to scan, PNG, as a data URL.'),
      secret: z.string().describe('The same in base32, for typing.'),
    }),
    async answer({ principal }) {
      const secret = newOtpSecret()
      // Needed so seldom that it is loaded when it is.
      const { toDataURL } = await import('qrcode')
      const qr = await toDataURL(otpAddress(secret, principal.username), { type: 'image/png', width: pictureSize })
      return { qr, secret }
    },
  }),
  endpoint({
    method: 'post',
    path: '/api/auth/2fa/verify',
    tag: 'Signing in',
    summary: 'Turn on two-step verification with a code made from a new secret',
    access: 'user',
    guestRefusal,
    fields: z.object({
      code: oneTimeCode
        .pipe(z.string().min(1, 'must not be empty'))
        .meta({ wire: { type: 'string', minLength: 1 }, example: '123456' }),
      secret: z.string().min(1, 'must not be empty').max(128, 'is too long').describe('The one that `generate` gave.'),
    }),
    refusals: [
      { code: 400, text: 'Invalid 2FA code' },
      { code: 429, text: 'Too many …', when: 'this account has had too many wrong codes' },
    ],
    answer({ context, door, fields: { code, secret }, principal }) {
      const { address } = door.clientOf(context.req)
      return door.gateway.accounts.turnOnTwoStep(principal.userId, { secret, code, address })
    },
  }),
]
