/** The color of links and buttons: that of the setting `main_color`, which the page has as its theme color. */

/** Contrast with the background (WCAG 2.2, contrast ratio). Leaves 4.5 on the backgrounds of selected rows. */
const contrast = 6.5

type Color = readonly number[]

const grounds = { light: [255, 255, 255], dark: [22, 24, 29] } as const
const ends = { light: [0, 0, 0], dark: [255, 255, 255] } as const

/** Applies the color in a shade that can be read, for light and dark. What is not a color changes nothing. */
export function applyMainColor(): void {
  const name = document.querySelector<HTMLMetaElement>('meta[name=theme-color]')?.content ?? ''
  if (!CSS.supports('color', name)) return
  const color = channelsOf(name)
  if (color === undefined) return
  const shades = (['light', 'dark'] as const).map((scheme) => `rgb(${readable(color, scheme).join(' ')})`)
  document.documentElement.style.setProperty('--accent', `light-dark(${shades.join(', ')})`)
}

/** Red, green and blue, from 0 to 255, as the browser paints the color. */
function channelsOf(name: string): Color | undefined {
  const canvas = document.createElement('canvas')
  canvas.width = canvas.height = 1
  const context = canvas.getContext('2d')
  if (context === null) return undefined
  context.fillStyle = name
  context.fillRect(0, 0, 1, 1)
  return [...context.getImageData(0, 0, 1, 1).data.slice(0, 3)]
}

/** The color, mixed with as little black or white as the contrast requires. */
function readable(color: Color, scheme: keyof typeof grounds): Color {
  const end = ends[scheme]
  for (let share = 0; share < 1; share += 0.02) {
    const mixed = color.map((channel, index) => Math.round(channel * (1 - share) + (end[index] ?? 0) * share))
    if (ratio(mixed, grounds[scheme]) >= contrast) return mixed
  }
  return end
}

function ratio(one: Color, other: Color): number {
  const [dark = 0, light = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b)
  return (light + 0.05) / (dark + 0.05)
}

/** WCAG 2.2, relative luminance. */
function luminance(color: Color): number {
  const [red = 0, green = 0, blue = 0] = color.map((channel) => {
    const share = channel / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}
