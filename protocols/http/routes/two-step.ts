/** Two-step verification of the user who asks. */
import { z } from 'zod'
import { newOtpSecret, otpAddress } from '../../../src/accounts/otp.js'
import type { Principal } from '../../../src/principal.js'
import { principalOf } from '../authenticate.js'
import type { Context, Door, Routes } from '../context.js'
import { success } from '../envelope.js'
import { WireError } from '../errors.js'
import { oneTimeCode, parseFields, readFields } from '../fields.js'

/** Pixels of each side of the picture. */
const pictureSize = 400

const proof = z.object({
  code: oneTimeCode.pipe(z.string().min(1, 'must not be empty')),
  secret: z.string().min(1, 'must not be empty').max(128, 'is too long'),
})

export function twoStepRoutes(routes: Routes, door: Door): void {
  async function owner(ctx: Context): Promise<Principal> {
    const principal = await principalOf(door, ctx.req)
    if (principal.role === 'guest') throw new WireError(403, 'Guest user can not generate 2FA code')
    return principal
  }

  // Nothing is stored until a code proves that the secret has arrived.
  routes.post('/api/auth/2fa/generate', async (ctx) => {
    const { username } = await owner(ctx)
    const secret = newOtpSecret()
    // Needed so seldom that it is loaded when it is.
    const { toDataURL } = await import('qrcode')
    const qr = await toDataURL(otpAddress(secret, username), { type: 'image/png', width: pictureSize })
    ctx.body = success({ qr, secret })
  })

  routes.post('/api/auth/2fa/verify', readFields(), async (ctx) => {
    const { userId } = await owner(ctx)
    const { code, secret } = parseFields(ctx, proof)
    await door.gateway.accounts.turnOnTwoStep(userId, secret, code)
    ctx.body = success()
  })
}
