/** Recovery codes of two-step verification. */
import type { Database } from './database.js'

export class RecoveryCodesTable {
  constructor(private readonly database: Database) {}

  async count(userId: number): Promise<number> {
    const codes = await this.database.read((query) =>
      query('recovery_codes').where({ user_id: userId }).select('digest'),
    )
    return codes.length
  }

  async replace(userId: number, otpSecret: string, digests: readonly string[]): Promise<boolean> {
    return this.database.guarded('users', async (query) => {
      const users = await query('users').where({ id: userId, otp_secret: otpSecret }).select('id')
      if (users.length === 0) return false
      await query('recovery_codes').where({ user_id: userId }).delete()
      await query('recovery_codes').insert(digests.map((digest) => ({ user_id: userId, digest })))
      return true
    })
  }

  async use(userId: number, digest: string): Promise<boolean> {
    const deleted = await this.database.run((query) =>
      query('recovery_codes').where({ user_id: userId, digest }).delete(),
    )
    return deleted > 0
  }
}
