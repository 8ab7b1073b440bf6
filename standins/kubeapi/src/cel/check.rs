//! Judging expressions where they are written: names, fields, functions and, where the schema says
//! them, types.
//!
//! The real server type-checks every rule of a CRD; kube-cel does not, so what it would find only
//! when the rule runs (and some of what it would then take for `false`) is found here. Must stay
//! true: what cannot be evaluated is refused.

use kube_cel::cel::{
    common::ast::{CallExpr, ComprehensionExpr, Expr, LiteralValue, SelectExpr, operators},
    parser::Expression,
};

use super::{CelError, TYPES, knows_function, parse, value::escaped};
use crate::schema::{Schema, Type};

/// What an expression must give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Bool,
    String,
}

/// What is known of the type of a part of an expression.
#[derive(Clone, Debug)]
enum Kind<'s> {
    /// Nothing.
    Any,
    Bool,
    Int,
    Double,
    Text,
    List(Box<Kind<'s>>),
    /// A value of a schema.
    Of(&'s Schema),
    /// A whole object.
    Root(&'s Schema),
    /// A whole object's metadata, of which rules see the names.
    Metadata,
    Optional(Box<Kind<'s>>),
    /// A type.
    Type,
    /// An AdmissionRequest.
    Request,
}

/// The fields of an AdmissionRequest.
const REQUEST: [&str; 12] = [
    "kind",
    "resource",
    "subResource",
    "requestKind",
    "requestResource",
    "requestSubResource",
    "name",
    "namespace",
    "operation",
    "userInfo",
    "dryRun",
    "options",
];

/// The names that an expression may use.
#[derive(Clone, Debug)]
pub(super) struct Scope<'s>(Vec<(String, Kind<'s>)>);

impl<'s> Scope<'s> {
    pub(super) fn of_rule(schema: &'s Schema, root: bool, optional_old: bool) -> Self {
        let itself = if root || schema.embedded {
            Kind::Root(schema)
        } else {
            Kind::Of(schema)
        };
        let old = if optional_old {
            Kind::Optional(Box::new(itself.clone()))
        } else {
            itself.clone()
        };
        Self(vec![("self".into(), itself), ("oldSelf".into(), old)])
    }

    pub(super) fn of_condition() -> Self {
        let names = [
            ("object", Kind::Any),
            ("oldObject", Kind::Any),
            ("request", Kind::Request),
        ];
        Self(names.map(|(name, kind)| (name.to_owned(), kind)).to_vec())
    }

    fn find(&self, name: &str) -> Option<&Kind<'s>> {
        let mut inner_first = self.0.iter().rev();
        inner_first
            .find(|(known, _)| known == name)
            .map(|(_, kind)| kind)
    }

    fn with(&self, name: &str, kind: Kind<'s>) -> Self {
        let mut inner = self.clone();
        inner.0.push((name.to_owned(), kind));
        inner
    }
}

/// Parses an expression and judges it.
pub(super) fn compile(
    text: &str,
    scope: &Scope<'_>,
    wanted: Wanted,
) -> Result<Expression, CelError> {
    let mut expression =
        parse(text).map_err(|why| CelError::Compile(format!("ERROR: <input>: {why}")))?;
    let kind = infer(&mut expression, scope)
        .map_err(|why| CelError::Compile(format!("ERROR: <input>: {why}")))?;
    match (wanted, kind.scalar()) {
        (Wanted::Bool, "dyn" | "bool") | (Wanted::String, "dyn" | "string") => Ok(expression),
        (Wanted::Bool, _) => Err(CelError::NotBool),
        (Wanted::String, _) => Err(CelError::NotString),
    }
}

impl Kind<'_> {
    /// The type's name, as messages say it; `dyn` if it is not known.
    fn scalar(&self) -> &'static str {
        match self {
            Self::Any => "dyn",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Double => "double",
            Self::Text => "string",
            Self::List(_) => "list",
            Self::Root(_) | Self::Metadata | Self::Request => "object",
            Self::Optional(_) => "optional_type",
            Self::Type => "type",
            Self::Of(schema) => match schema.kind {
                Type::Boolean => "bool",
                Type::Integer => "int",
                Type::Number => "double",
                // Times and the like are no strings.
                Type::String if has_typed_format(schema) => "dyn",
                Type::String => "string",
                Type::Array => "list",
                Type::Object => "object",
                Type::Any | Type::IntOrString => "dyn",
            },
        }
    }

    fn element(&self) -> Self {
        match self {
            Self::List(kind) => Self::clone(kind),
            Self::Of(schema) => match (&schema.items, schema.kind) {
                (Some(items), Type::Array) => items.as_ref().into(),
                // Iterating over a map gives its keys.
                (_, Type::Object) => Self::Text,
                _ => Self::Any,
            },
            _ => Self::Any,
        }
    }

    /// The type of a field; an error if there is none.
    fn field(&self, name: &str) -> Result<Self, String> {
        let undefined = || Err(format!("undefined field '{name}'"));
        match self {
            Self::Any => Ok(Self::Any),
            Self::Metadata if matches!(name, "name" | "generateName") => Ok(Self::Text),
            Self::Request if REQUEST.contains(&name) => Ok(Self::Any),
            Self::Metadata | Self::Request => undefined(),
            Self::Root(_) if matches!(name, "apiVersion" | "kind") => Ok(Self::Text),
            Self::Root(_) if name == "metadata" => Ok(Self::Metadata),
            Self::Of(schema) | Self::Root(schema) if schema.kind == Type::Object => {
                let mut properties = schema.properties.iter();
                let known = properties.find(|(field, _)| escaped(field).as_deref() == Some(name));
                match (known, &schema.additional) {
                    (Some((_, known)), _) => Ok(known.into()),
                    (None, Some(values)) => Ok(values.as_ref().into()),
                    (None, None) => undefined(),
                }
            }
            Self::Of(schema) if schema.kind == Type::Any => Ok(Self::Any),
            Self::Optional(inner) => inner.field(name).map(|kind| Self::Optional(kind.into())),
            other => Err(format!(
                "type '{}' does not support field selection",
                other.scalar()
            )),
        }
    }

    fn indexed(&self) -> Self {
        match self {
            Self::List(kind) => Self::clone(kind),
            Self::Of(schema) => match (schema.kind, &schema.items, &schema.additional) {
                (Type::Array, Some(child), _) | (Type::Object, _, Some(child)) => {
                    child.as_ref().into()
                }
                _ => Self::Any,
            },
            _ => Self::Any,
        }
    }
}

impl<'s> From<&'s Schema> for Kind<'s> {
    fn from(schema: &'s Schema) -> Self {
        if schema.embedded {
            Self::Root(schema)
        } else {
            Self::Of(schema)
        }
    }
}

fn has_typed_format(schema: &Schema) -> bool {
    let format = schema.rules.format.as_deref();
    matches!(format, Some("date-time" | "date" | "duration" | "byte"))
}

/// The type of an expression. Changes what kube-cel does otherwise than the real server.
fn infer<'s>(expression: &mut Expression, scope: &Scope<'s>) -> Result<Kind<'s>, String> {
    match &mut expression.expr {
        Expr::Literal(literal) => Ok(match literal {
            LiteralValue::Boolean(_) => Kind::Bool,
            LiteralValue::Double(_) => Kind::Double,
            LiteralValue::Int(_) => Kind::Int,
            LiteralValue::String(_) => Kind::Text,
            LiteralValue::Bytes(_) | LiteralValue::Null | LiteralValue::UInt(_) => Kind::Any,
        }),
        Expr::Ident(name) => scope
            .find(name)
            .cloned()
            .or_else(|| TYPES.contains(&name.as_str()).then_some(Kind::Type))
            .ok_or_else(|| format!("undeclared reference to '{name}' (in container '')")),
        Expr::Select(select) => infer_select(select, scope),
        Expr::List(list) => {
            let mut element = Kind::Any;
            for (index, item) in list.elements.iter_mut().enumerate() {
                let kind = infer(item, scope)?;
                if index == 0 {
                    element = kind;
                }
            }
            Ok(Kind::List(element.into()))
        }
        Expr::Map(map) => {
            use kube_cel::cel::common::ast::EntryExpr;
            for entry in &mut map.entries {
                let EntryExpr::MapEntry(entry) = &mut entry.expr else {
                    return Err("messages cannot be made here".into());
                };
                infer(&mut entry.key, scope)?;
                infer(&mut entry.value, scope)?;
            }
            Ok(Kind::Any)
        }
        Expr::Comprehension(comprehension) => infer_comprehension(comprehension, scope),
        Expr::Call(_) => infer_call(expression, scope),
        Expr::Struct(_) | Expr::Unspecified => Err("messages cannot be made here".into()),
    }
}

fn infer_select<'s>(select: &mut SelectExpr, scope: &Scope<'s>) -> Result<Kind<'s>, String> {
    let operand = infer(&mut select.operand, scope)?;
    if matches!(operand, Kind::Optional(_)) {
        // kube-cel takes a field of an optional for `false`.
        return Err(format!(
            "a field of an optional is written with '.?{}' here",
            select.field
        ));
    }
    if matches!(&operand, Kind::Of(schema) if schema.kind == Type::IntOrString) {
        return Err(format!(
            "type 'dyn' of an int-or-string has no field '{}'",
            select.field
        ));
    }
    let field = operand.field(&select.field)?;
    Ok(if select.test { Kind::Bool } else { field })
}

fn infer_comprehension<'s>(
    comprehension: &mut ComprehensionExpr,
    scope: &Scope<'s>,
) -> Result<Kind<'s>, String> {
    if comprehension.iter_var2.is_some() {
        return Err("comprehensions of two variables are not evaluated here".into());
    }
    let range = infer(&mut comprehension.iter_range, scope)?;
    let start = infer(&mut comprehension.accu_init, scope)?;
    let inner = scope
        .with(&comprehension.accu_var, Kind::Any)
        .with(&comprehension.iter_var, range.element());
    infer(&mut comprehension.loop_cond, &inner)?;
    let step = infer(&mut comprehension.loop_step, &inner)?;
    let outer = scope.with(&comprehension.accu_var, Kind::Any);
    let result = infer(&mut comprehension.result, &outer)?;
    Ok(match (start, result) {
        (Kind::Bool, _) | (_, Kind::Bool) => Kind::Bool,
        (Kind::List(_), _) => match step {
            Kind::List(element) => Kind::List(element),
            _ => Kind::List(Kind::Any.into()),
        },
        _ => Kind::Any,
    })
}

fn infer_call<'s>(expression: &mut Expression, scope: &Scope<'s>) -> Result<Kind<'s>, String> {
    let Expr::Call(call) = &mut expression.expr else {
        return Ok(Kind::Any);
    };
    let qualified = match &call.target.as_deref().map(|target| &target.expr) {
        Some(Expr::Ident(prefix)) if scope.find(prefix).is_none() => {
            Some(format!("{prefix}.{}", call.func_name))
        }
        _ => None,
    };
    let mut kinds = Vec::new();
    if let (Some(target), None) = (&mut call.target, &qualified) {
        kinds.push(infer(target, scope)?);
    }
    for argument in &mut call.args {
        kinds.push(infer(argument, scope)?);
    }
    if call.func_name == operators::OPT_SELECT {
        return opt_select(call, &kinds);
    }
    if let Some(kind) = operator(call, &kinds)? {
        return Ok(kind);
    }
    let name = qualified.unwrap_or_else(|| call.func_name.clone());
    if !knows_function(&name) {
        return Err(format!(
            "undeclared reference to '{}' (in container '')",
            call.func_name
        ));
    }
    Ok(match call.func_name.as_str() {
        "size" | "indexOf" | "lastIndexOf" | "int" | "prefixLength" => Kind::Int,
        "startsWith" | "endsWith" | "contains" | "matches" | "hasValue" | "isIP" | "isCIDR"
        | "containsIP" | "containsCIDR" | "isURL" | "isQuantity" | "isSorted" => Kind::Bool,
        "string" | "lowerAscii" | "upperAscii" | "trim" | "replace" | "format" | "join"
        | "substring" | "charAt" => Kind::Text,
        "type" => Kind::Type,
        "value" => match kinds.into_iter().next() {
            Some(Kind::Optional(inner)) => *inner,
            _ => Kind::Any,
        },
        _ => Kind::Any,
    })
}

/// `a.?b`, written out: kube-cel fails where `a` is no optional and has no `b`, and where it is one
/// makes an optional of an optional.
fn opt_select<'s>(call: &mut CallExpr, kinds: &[Kind<'s>]) -> Result<Kind<'s>, String> {
    let [operand, field] = call.args.clone().try_into().unwrap_or_default();
    let operand = &operand;
    let Expr::Literal(LiteralValue::String(field)) = &field.expr else {
        return Err("the field of '.?' is no name".into());
    };
    let field = field.inner();
    let kind = kinds.first().cloned().unwrap_or(Kind::Any);
    let (kind, template) = match kind {
        Kind::Optional(inner) => (
            *inner,
            format!(
                "operand.hasValue() && has(operand.value().{field}) ? optional.of(operand.value().{field}) : optional.none()"
            ),
        ),
        plain => (
            plain,
            format!("has(operand.{field}) ? optional.of(operand.{field}) : optional.none()"),
        ),
    };
    let inner = kind.field(field)?;
    let mut written_out = parse(&template)?;
    put_in(&mut written_out, operand);
    let Expr::Call(conditional) = written_out.expr else {
        return Err("'.?' cannot be written out".into());
    };
    *call = conditional;
    Ok(Kind::Optional(inner.into()))
}

/// Puts an expression where a template says `operand`.
fn put_in(template: &mut Expression, operand: &Expression) {
    match &mut template.expr {
        Expr::Ident(name) if name == "operand" => *template = operand.clone(),
        Expr::Select(select) => put_in(&mut select.operand, operand),
        Expr::Call(call) => {
            for part in call.target.as_deref_mut().into_iter().chain(&mut call.args) {
                put_in(part, operand);
            }
        }
        _ => {}
    }
}

/// The type of an operator's result; nothing if it is none.
fn operator<'s>(call: &CallExpr, kinds: &[Kind<'s>]) -> Result<Option<Kind<'s>>, String> {
    let names: Vec<_> = kinds.iter().map(Kind::scalar).collect();
    let mismatch = || {
        Err(format!(
            "found no matching overload for '{}' applied to '({})'",
            call.func_name,
            names.join(", ")
        ))
    };
    let agree = match names.as_slice() {
        [one, two] => one == two || *one == "dyn" || *two == "dyn",
        _ => true,
    };
    let numbers = names
        .iter()
        .all(|name| matches!(*name, "int" | "double" | "dyn"));
    Ok(Some(match call.func_name.as_str() {
        operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT => {
            if let Some(other) = names.iter().find(|name| !matches!(**name, "bool" | "dyn")) {
                return Err(format!("expected type 'bool' but found '{other}'"));
            }
            Kind::Bool
        }
        operators::EQUALS | operators::NOT_EQUALS => {
            if !agree {
                return mismatch();
            }
            Kind::Bool
        }
        operators::LESS
        | operators::LESS_EQUALS
        | operators::GREATER
        | operators::GREATER_EQUALS => {
            if !agree && !numbers {
                return mismatch();
            }
            Kind::Bool
        }
        operators::IN | operators::NOT_STRICTLY_FALSE => Kind::Bool,
        operators::INDEX => kinds.first().map_or(Kind::Any, Kind::indexed),
        operators::OPT_INDEX => {
            Kind::Optional(kinds.first().map_or(Kind::Any, Kind::indexed).into())
        }
        operators::CONDITIONAL => kinds.get(1).cloned().unwrap_or(Kind::Any),
        operators::ADD
        | operators::SUBSTRACT
        | operators::MULTIPLY
        | operators::DIVIDE
        | operators::MODULO => {
            if !agree {
                return mismatch();
            }
            kinds.first().cloned().unwrap_or(Kind::Any)
        }
        operators::NEGATE => kinds.first().cloned().unwrap_or(Kind::Any),
        _ => return Ok(None),
    }))
}
