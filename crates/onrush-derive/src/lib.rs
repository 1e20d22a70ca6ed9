//! The derives of the client library `onrush`, which has them behind its feature `derive`: use them from there.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

use proc_macro::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Ident, LitStr, Result, Token, Type, WhereClause, parse_macro_input};

/// Reads a struct from the fields of a hash or of a stream's entry: `HGETALL`, `XRANGE`, `XREAD`.
///
/// Each field of the struct is read from the field of its name. `#[onrush(rename = "other")]` names another one. A field
/// that is missing is read as nil: an `Option` is `None`, other types are an error that names the field, unless
/// `#[onrush(default)]` gives them their default. Fields that the struct does not have are ignored.
#[proc_macro_derive(FromRedisValue, attributes(onrush))]
pub fn derive_from_redis_value(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    from_redis_value(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Writes a struct as names and values in turn, as `HSET` and `XADD` take them.
///
/// Each field must be one argument (`onrush::ToSingleRedisArg`); an `Option` that is `None` is left out, with its name.
/// `#[onrush(rename = "other")]` names a field otherwise.
#[proc_macro_derive(ToRedisArgs, attributes(onrush))]
pub fn derive_to_redis_args(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    to_redis_args(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn from_redis_value(input: &DeriveInput) -> Result<proc_macro2::TokenStream> {
    let fields = fields(input)?;
    let read = fields.iter().map(|Field { ident, name, default, .. }| {
        let take = if *default { quote!(take_or_default) } else { quote!(take) };
        quote!(#ident: fields.#take(#name)?)
    });
    let bounds = fields.iter().map(|Field { ty, default, .. }| {
        let default = default.then(|| quote!(+ ::core::default::Default));
        quote!(#ty: ::onrush::FromRedisValue #default)
    });
    let (generics, arguments, wanted) = input.generics.split_for_impl();
    let (name, wanted) = (&input.ident, with(wanted, bounds));
    Ok(quote! {
        #[automatically_derived]
        impl #generics ::onrush::FromRedisValue for #name #arguments #wanted {
            fn from_redis_value(value: ::onrush::Value) -> ::onrush::RedisResult<Self> {
                let mut fields = ::onrush::derived::Fields::of(value)?;
                ::core::result::Result::Ok(Self { #(#read),* })
            }
        }
    })
}

fn to_redis_args(input: &DeriveInput) -> Result<proc_macro2::TokenStream> {
    let fields = fields(input)?;
    let write = fields
        .iter()
        .map(|Field { ident, name, .. }| quote!(::onrush::derived::write_field(#name, &self.#ident, out);));
    let count = fields.iter().map(|Field { ident, .. }| quote!(+ 2 * ::onrush::ToRedisArgs::num_of_args(&self.#ident)));
    let bounds = fields.iter().map(|Field { ty, .. }| quote!(#ty: ::onrush::ToSingleRedisArg));
    let (generics, arguments, wanted) = input.generics.split_for_impl();
    let (name, wanted) = (&input.ident, with(wanted, bounds));
    Ok(quote! {
        #[automatically_derived]
        impl #generics ::onrush::ToRedisArgs for #name #arguments #wanted {
            fn write_redis_args<W: ::onrush::RedisWrite + ?Sized>(&self, out: &mut W) {
                #(#write)*
            }

            fn num_of_args(&self) -> usize {
                0 #(#count)*
            }
        }
    })
}

/// The bounds of a type together with others.
fn with(
    wanted: Option<&WhereClause>,
    more: impl Iterator<Item = proc_macro2::TokenStream>,
) -> proc_macro2::TokenStream {
    let wanted = wanted.into_iter().flat_map(|clause| &clause.predicates);
    quote!(where #(#wanted,)* #(#more,)*)
}

struct Field<'a> {
    ident: &'a Ident,
    ty: &'a Type,
    /// By which it goes over the wire.
    name: String,
    default: bool,
}

fn fields(input: &DeriveInput) -> Result<Vec<Field<'_>>> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(input.ident.span(), "only a struct has the fields of a hash"));
    };
    let Fields::Named(named) = &data.fields else {
        return Err(Error::new(data.fields.span(), "the fields need names, as those of a hash have"));
    };
    let mut all: Vec<Field<'_>> = Vec::new();
    for field in &named.named {
        let Some(ident) = &field.ident else { continue };
        let mut options = Options::default();
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("onrush")) {
            let more: Options = attribute.parse_args()?;
            options = Options { rename: more.rename.or(options.rename), default: more.default || options.default };
        }
        let own = || ident.to_string().trim_start_matches("r#").to_owned();
        let name = options.rename.unwrap_or_else(own);
        if all.iter().any(|other| other.name == name) {
            return Err(Error::new(ident.span(), format!("two fields have the name '{name}'")));
        }
        all.push(Field { ident, ty: &field.ty, name, default: options.default });
    }
    Ok(all)
}

/// What stands in `#[onrush(…)]`.
#[derive(Default)]
struct Options {
    rename: Option<String>,
    default: bool,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Options> {
        let mut options = Options::default();
        while !input.is_empty() {
            let option: Ident = input.parse()?;
            if option == "rename" {
                input.parse::<Token![=]>()?;
                options.rename = Some(input.parse::<LitStr>()?.value());
            } else if option == "default" {
                options.default = true;
            } else {
                return Err(Error::new(option.span(), "there are the options `rename = \"…\"` and `default`"));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: &str) -> String {
        let input: DeriveInput = syn::parse_str(code).unwrap();
        assert!(to_redis_args(&input).is_err());
        from_redis_value(&input).unwrap_err().to_string()
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        for (code, reason) in [
            ("enum Shape { Round }", "only a struct"),
            ("struct Pair(u8, u8);", "need names"),
            ("struct User { #[onrush(named = \"n\")] name: String }", "there are the options"),
            ("struct User { #[onrush(rename = 5)] name: String }", "string literal"),
            ("struct User { #[onrush(rename = \"name\")] first: String, name: String }", "two fields"),
        ] {
            assert!(refusal(code).contains(reason), "{}", refusal(code));
        }
    }
}
