/** One-time codes: RFC 6238 with SHA-1, six digits, steps of 30 seconds. */
import { generateSecret, generateURI, verifySync } from 'otplib'

/** 20 random bytes in base32, as authenticator apps take them. */
export function newOtpSecret(): string {
  return generateSecret({ length: 20 })
}

/** The address that authenticator apps read from a QR code. */
export function otpAddress(secret: string, username: string): string {
  return generateURI({ issuer: 'Tidegate', label: username, secret })
}

/**
 * The time step that `code` belongs to: the one of `now` (milliseconds), the one before or the one after, because clocks
 * differ. Undefined for a wrong code and for one that is none.
 */
export function otpStep(secret: string, code: string, now: number): number | undefined {
  if (!/^\d{6}$/.test(code)) return undefined
  try {
    const result = verifySync({ secret, token: code, epoch: now / 1000, epochTolerance: 30 })
    return result.valid && 'timeStep' in result ? result.timeStep : undefined
  } catch {
    // A secret that is no base32 of 16 bytes or more: no code fits it.
    return undefined
  }
}
