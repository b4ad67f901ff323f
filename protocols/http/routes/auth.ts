/** Signing in and out. */
import { z } from 'zod'
import type { Credentials } from '../../../src/accounts/accounts.js'
import { CodeRequired } from '../../../src/accounts/errors.js'
import { isGatewayError } from '../../../src/errors.js'
import { tokenOf } from '../authenticate.js'
import type { Context, Door, Routes } from '../context.js'
import { success } from '../envelope.js'
import { WireError } from '../errors.js'
import { oneTimeCode, parseFields, readFields, requiredText, signInBodyLimit, text } from '../fields.js'

const signIn = z.object({
  username: requiredText,
  password: text,
  otp_code: oneTimeCode,
})

export function authRoutes(routes: Routes, door: Door): void {
  const { accounts } = door.gateway

  async function token(ctx: Context, passwordOf: (password: string) => Credentials['password']) {
    const { username, password, otp_code: code } = parseFields(ctx, signIn)
    const { address } = door.clientOf(ctx.req)
    try {
      return await accounts.signIn({
        username,
        password: passwordOf(password),
        code: code === '' ? undefined : code,
        address,
      })
    } catch (error) {
      if (error instanceof CodeRequired) throw new WireError(402, error.reason)
      // 401 means "your session has ended" to clients: on their sign-in page they would show nothing.
      if (isGatewayError(error, 'unauthenticated', 'denied')) throw new WireError(400, error.reason)
      throw error
    }
  }

  routes.post('/api/auth/login', readFields(signInBodyLimit), async (ctx) => {
    ctx.body = success({ token: await token(ctx, (plain) => ({ plain })) })
  })
  routes.post('/api/auth/login/hash', readFields(signInBodyLimit), async (ctx) => {
    ctx.body = success({ token: await token(ctx, (hash) => ({ hash })) })
  })
  routes.get('/api/auth/logout', async (ctx) => {
    const ended = tokenOf(ctx.req)
    if (ended !== '') await accounts.signOut(ended)
    ctx.body = success()
  })
}
