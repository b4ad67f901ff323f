/** The icon and the name of the site, as a link to where it begins. */
import { Link } from 'wouter-preact'
import './brand.css'

/** The logo of the setting, or the mark of the program. */
const icon = document.querySelector<HTMLLinkElement>('link[rel=icon]')?.href

interface BrandProps {
  readonly name: string
  readonly href: string
}

export function Brand({ name, href }: BrandProps) {
  return (
    <Link href={href} class="brand">
      <SiteIcon />
      {name}
    </Link>
  )
}

export function SiteIcon({ size = 24 }: { readonly size?: number }) {
  return <img src={icon} alt="" width={size} height={size} />
}
